"""Values of the core as hypothesis draws them: whatever their constructors accept.

Text is hostile on purpose: any sign that Python has, lone surrogates included. Names of objects and
tags are drawn from few, so that histories meet the same object more than once.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from hypothesis import strategies as st

from airflow_dispatch.core import commits, record
from airflow_dispatch.core.causes import Cause, CauseKind
from airflow_dispatch.core.commits import Body, Sight
from airflow_dispatch.core.identity import JobKey, Mark, TaskKey
from airflow_dispatch.core.job import Job, Placement, Resources, Unmatched

text = st.text(max_size=12)
plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
small = st.integers(0, 3)
positive = st.integers(1, 4)
OBJECTS = ("o1", "o2", "o3")
objects = st.sampled_from(OBJECTS)
zones = st.sampled_from([timezone.utc, timezone(timedelta(hours=5, minutes=30))])
moments = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=zones)  # noqa: DTZ001 - hypothesis adds the zone
digests = st.text("0123456789abcdef", min_size=64, max_size=64)

task_keys = st.builds(TaskKey, text, text, text, text, st.integers(-1, 9))
job_keys = st.builds(JobKey, task_keys, st.integers(2, 9))
marks = st.builds(Mark, text, digests, positive, positive, positive, text)
bindings = st.builds(
    record.Binding, small, text, small, small, small, st.sampled_from(record.OnClear)
)


def _cause(kind: CauseKind, number: int, detail: str) -> Cause:
    numbered = kind in (CauseKind.EXIT, CauseKind.SIGNAL)
    return Cause(kind, number if numbered else None, detail)


causes = st.builds(_cause, st.sampled_from(CauseKind), small, text)
verdicts = st.builds(
    record.Verdict,
    st.sampled_from(record.Source),
    st.none() | causes,
    st.none() | moments,
)
incarnations = st.builds(
    record.Incarnation,
    small,
    started=st.booleans(),
    started_at=st.none() | moments,
    host=text,
    verdict=st.none() | verdicts,
    idle=st.booleans(),
)
starts = st.lists(incarnations, max_size=2, unique_by=lambda one: one.start_count).map(
    lambda found: tuple(sorted(found, key=lambda one: one.start_count))
)
permits = st.builds(
    lambda number, first, more: record.Permit(number, first, first + more), positive, small, small
)
failed = st.builds(
    record.Outcome,
    st.just(record.OutcomeState.FAILED),
    cause=causes,
    object=st.none() | objects,
)
not_failed = st.builds(
    record.Outcome,
    st.sampled_from([record.OutcomeState.SUCCEEDED, record.OutcomeState.CANCELLED]),
    actor=text,
    reason=text,
    object=st.none() | objects,
)
outcomes = failed | not_failed
intents = st.one_of(
    st.builds(record.Start, positive, positive, text),
    st.builds(record.Open, objects, permits),
    st.builds(record.Stop, objects, text),
    st.builds(record.StopJob, st.integers(1, 2)),
    st.builds(record.Withdraw, objects, permits),
)
replies = st.one_of(
    st.builds(record.Created, objects, st.booleans()),
    st.builds(record.Refused, text, st.booleans()),
    st.just(record.Done()),
    st.builds(record.Decided, st.lists(st.tuples(small, st.booleans()), max_size=2).map(tuple)),
    st.builds(record.Unclear, text),
    st.builds(record.NotSent, text),
)
sights = st.builds(
    Sight, objects, marks, st.sampled_from(record.Phase), starts, text, unreadable=st.booleans()
)
resources = st.builds(
    Resources,
    positive,
    positive,
    positive,
    st.none() | st.integers(1 << 20, 1 << 50),
    gpus_per_node=positive,
    gpu_type=plain,
)
jobs = st.builds(
    Job,
    cluster=st.text(min_size=1, max_size=9),
    time_limit_seconds=st.integers(1, 10**6),
    command=st.lists(plain, max_size=3).map(lambda words: ("run", *words)),
    workdir=plain,
    env=st.dictionaries(
        st.from_regex(r"[A-C][a-z0-9_]{0,5}", fullmatch=True), plain, max_size=3
    ).map(lambda found: tuple(sorted(found.items()))),
    resources=resources,
    placement=st.builds(Placement, text, text, text, text),
    image=text,
    mounts=st.lists(text, max_size=2).map(tuple),
    start_within_seconds=st.none() | st.integers(1, 10**6),
    grace_seconds=st.integers(0, 100),
    unmatched=st.sampled_from(Unmatched),
    options=st.lists(st.tuples(text, text), max_size=2).map(tuple),
)
bodies: dict[type[Body], st.SearchStrategy[Body]] = {
    commits.Begun: st.builds(commits.Begun, job_keys, jobs, bindings, text, st.none() | st.just(1)),
    commits.Authorized: st.builds(commits.Authorized, small),
    commits.Intended: st.builds(commits.Intended, positive, intents, st.none() | moments),
    commits.Chosen: st.builds(commits.Chosen, positive, objects),
    commits.Retired: st.builds(commits.Retired, objects, text),
    commits.NeverLanded: st.builds(commits.NeverLanded, positive, positive),
    commits.Gone: st.builds(commits.Gone, objects, moments),
    commits.Lost: st.builds(commits.Lost, objects, moments),
    commits.OpenedOutside: st.builds(commits.OpenedOutside, objects),
    commits.Concluded: st.builds(commits.Concluded, outcomes),
    commits.Quieted: st.builds(commits.Quieted, moments),
    commits.Settled: st.just(commits.Settled()),
    commits.Adopted: st.builds(commits.Adopted, bindings),
    commits.Cancelled: st.builds(commits.Cancelled, text),
    commits.Sighted: st.builds(commits.Sighted, moments, st.lists(sights, max_size=3).map(tuple)),
    commits.Replied: st.builds(commits.Replied, positive, replies),
}
calls = st.builds(
    record.Call, positive, intents, small, st.none() | moments, st.none() | replies, small
)
attempts = st.builds(record.Attempt, positive, text, positive, st.booleans())
submissions = st.builds(
    record.Submission,
    positive,
    positive,
    st.lists(attempts, max_size=2).map(tuple),
    st.none() | objects,
)
object_states = st.builds(
    record.ObjectState,
    objects,
    marks,
    positive,
    st.none() | moments,
    st.sampled_from(record.Phase),
    incarnations=starts,
    note=text,
    born_open=st.booleans(),
    retired=text,
    may_have_opened=st.booleans(),
    opened_outside=st.booleans(),
    gone_at=st.none() | moments,
    lost_at=st.none() | moments,
)
states = st.builds(
    record.State,
    job_keys,
    text,
    text,
    bindings,
    st.none() | positive,
    created_at=moments,
    submissions=st.lists(submissions, max_size=2).map(tuple),
    objects=st.lists(object_states, max_size=2).map(tuple),
    calls=st.lists(calls, max_size=3).map(tuple),
    permits=st.lists(st.tuples(objects, permits), max_size=2).map(tuple),
    calls_made=small,
    outcome=st.none() | outcomes,
    outcome_revision=small,
    outcome_at=st.none() | moments,
    quiet_at=st.none() | moments,
    settled_revision=small,
)
