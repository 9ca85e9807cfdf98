"""Parts that the tests of the core are made of: one job, its histories and views of its cluster.

A history is a list of commit bodies, folded by the real `folding`; so a record that no supervisor
could have written cannot be built here. Object `o1` is that of attempt 1, `o2` of attempt 2; a twin
of attempt 1 is `o1b`. Times are seconds after `NOON`, of the cluster's clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from airflow_dispatch.core import folding
from airflow_dispatch.core.causes import Cause, CauseKind
from airflow_dispatch.core.commits import (
    Authorized,
    Begun,
    Body,
    Chosen,
    Commit,
    Concluded,
    Intended,
    Replied,
    Sight,
    Sighted,
)
from airflow_dispatch.core.identity import JobKey, Mark, TaskKey
from airflow_dispatch.core.job import Job, Unmatched
from airflow_dispatch.core.record import (
    Binding,
    Created,
    Decided,
    Incarnation,
    Open,
    Outcome,
    OutcomeState,
    Permit,
    Phase,
    Record,
    Reply,
    Source,
    Start,
    Stop,
    StopJob,
    Verdict,
    Withdraw,
)
from airflow_dispatch.core.settlement import Predecessor
from airflow_dispatch.core.steps import Context
from airflow_dispatch.core.view import CallKind, Capabilities, Snapshot, View

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
TASK = TaskKey("deployment-1", "digits", "manual 2026-03-01", "train")
KEY = JobKey(TASK, 1)
JOB = Job(cluster="local", command=("python", "train.py"), time_limit_seconds=600, grace_seconds=10)
MANUAL_JOB = Job(
    cluster="local", command=("true",), time_limit_seconds=600, unmatched=Unmatched.MANUAL
)
BINDING = Binding(dag_run_id=7, ti_id="ti-1", try_number=1, max_tries=2, clear_number=0)
FINGERPRINT = "cluster-1"
BOUND = timedelta(seconds=5)
CAPABILITIES = Capabilities(FINGERPRINT, BOUND, final_when_answered=frozenset(CallKind))
PERMIT = Permit(1, 0, 0)
EXIT_1 = Cause(CauseKind.EXIT, 1)
SUCCEEDED = Outcome(OutcomeState.SUCCEEDED, object="o1")
FAILED = Outcome(OutcomeState.FAILED, cause=EXIT_1, object="o1")
CANCELLED = Outcome(OutcomeState.CANCELLED, actor="person:ada", reason="wrong data")


def at(seconds: float) -> datetime:
    """Cluster time, in seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def key(generation: int) -> JobKey:
    """The key of one of the task's generations."""
    return JobKey(TASK, generation)


def mark(attempt: int = 1, *, submission: int = 1, generation: int = 1, tag: str = "") -> Mark:
    """The mark of an attempt of this task; its tag is made of the numbers unless one is given."""
    tag = tag or f"tag-{submission}.{attempt}"
    return Mark(TASK.deployment, TASK.digest, generation, submission, attempt, tag)


def begun(
    *,
    generation: int = 1,
    predecessor: int | None = None,
    job: Job = JOB,
    binding: Binding = BINDING,
) -> Begun:
    """The first body of a record."""
    return Begun(key(generation), job, binding, FINGERPRINT, predecessor)


def commit(body: Body, *, actor: str = "supervisor:a", number: int = 0) -> Commit:
    """A commit of the body."""
    return Commit(id=f"{number:032x}", at=NOON, actor=actor, body=body)


def record(*bodies: Body, first: Begun | None = None) -> Record:
    """The record with that history; `first` is its beginning where the usual one will not do."""
    return also(folding.begin(commit(first or begun())), bodies)


def also(base: Record, bodies: Iterable[Body]) -> Record:
    """The record some commits later."""
    for body in bodies:
        base = folding.apply(base, commit(body, number=base.revision + 1))
    return base


# --- bodies ---------------------------------------------------------------------------------------


def start(call: int, attempt: int = 1, *, submission: int = 1, deadline: float = 30) -> Intended:
    """The intent of a start call, with the tag that `mark` gives the attempt."""
    tag = mark(attempt, submission=submission).tag
    return Intended(call, Start(submission, attempt, tag), at(deadline))


def opening(
    call: int, wanted: str = "o1", *, permit: Permit = PERMIT, deadline: float = 60
) -> Intended:
    """The intent of an open call."""
    return Intended(call, Open(wanted, permit), at(deadline))


def stop(call: int, wanted: str, reason: str = "unwanted") -> Intended:
    """The intent of stopping one object."""
    return Intended(call, Stop(wanted, reason))


def stop_job(call: int, round_: int) -> Intended:
    """The intent of stopping everything."""
    return Intended(call, StopJob(round_))


def withdraw(call: int, wanted: str = "o1", *, permit: Permit = PERMIT) -> Intended:
    """The intent of taking a permit back."""
    return Intended(call, Withdraw(wanted, permit))


def replied(call: int, reply: Reply) -> Replied:
    """What came back from a call."""
    return Replied(call, reply)


BORN_OPEN = Created("o1", gated=False)
"""The start's answer where a plugin of the scheduler stripped the gate."""
WON = Decided(((0, False),))
"""A withdrawal that came before the start."""
STARTED = Decided(((0, True),))
"""A withdrawal that came too late: the start was claimed."""


def launched(attempt: int = 1) -> list[Body]:
    """Submission 1 is authorized and its first attempts created `o1`, ...: calls 1 to `attempt`."""
    bodies: list[Body] = [Authorized(1)]
    for number in range(1, attempt + 1):
        bodies += [start(number, number), replied(number, Created(f"o{number}"))]
    return bodies


def chosen() -> list[Body]:
    """`o1` is canonical, gated and not yet opened; call 1 is its start."""
    return [*launched(), sighted(5, gated("o1")), Chosen(1, "o1")]


def opened(reply: Reply | None = None) -> list[Body]:
    """`o1` has an opening: call 2, answered if `reply` is given."""
    return [*chosen(), opening(2), *([replied(2, reply)] if reply is not None else [])]


def concluded(outcome: Outcome) -> Concluded:
    """The body that commits an outcome."""
    return Concluded(outcome)


# --- what a Find shows ----------------------------------------------------------------------------


def sight(
    wanted: str,
    phase: Phase,
    *incarnations: Incarnation,
    of: Mark | None = None,
    unreadable: bool = False,
) -> Sight:
    """An object as shown; its mark follows from its name (`o2` is attempt 2's) unless given."""
    found = of or mark(int(wanted.lstrip("o")[0]))
    return Sight(wanted, found, phase, incarnations, unreadable=unreadable)


def gated(wanted: str = "o1", *, of: Mark | None = None) -> Sight:
    """Behind its gate."""
    return sight(wanted, Phase.GATED, of=of)


def running(wanted: str = "o1", *, of: Mark | None = None, count: int = 0) -> Sight:
    """Started, and running."""
    begun_ = Incarnation(count, started=True, started_at=at(70), host="n1")
    return sight(wanted, Phase.RUNNING, begun_, of=of)


def ended(
    wanted: str = "o1",
    cause: Cause | None = None,
    *,
    of: Mark | None = None,
    idle: bool = True,
    started: bool = True,
    source: Source = Source.EXIT_RECORD,
) -> Sight:
    """Over: with success unless a cause is given; nothing of it can run unless it is not idle."""
    verdict = Verdict(source, cause, at(100))
    return sight(
        wanted, Phase.ENDED, Incarnation(0, started=started, verdict=verdict, idle=idle), of=of
    )


def foreign(wanted: str = "f1", phase: Phase = Phase.GATED, *incarnations: Incarnation) -> Sight:
    """An object that bears this job's full mark, of an attempt that no record knows."""
    return sight(wanted, phase, *incarnations, of=mark(1, tag="a tag that nobody committed"))


def sighted(began: float, *sights: Sight) -> Sighted:
    """The evidence of a Find."""
    return Sighted(at(began), sights)


def view(base: Record, began: float, *sights: Sight, revision: int | None = None) -> View:
    """A Find that began at that time, after `base` (or an older `revision` of it) was loaded."""
    snapshot = Snapshot(FINGERPRINT, at(began), sights)
    return View(snapshot, base.revision if revision is None else revision)


def context(
    *,
    capabilities: Capabilities = CAPABILITIES,
    predecessors: tuple[Predecessor, ...] = (),
    paced: Iterable[int] = (),
    asked: bool = False,
    tag: str = "fresh",
) -> Context:
    """What a decision is told besides record and view."""
    return Context(
        capabilities=capabilities,
        tag=tag,
        predecessors=predecessors,
        paced=frozenset(paced),
        asked=asked,
    )
