"""`apply(record, commit)`: the only code that changes a state.

Total over the closed union of commits; a commit that cannot follow the record it is applied to
breaks an invariant and raises, so that no store ever keeps it. Folding evidence commutes wherever
the order of arrival can differ: facts are joined, never overwritten (a property test holds this).
Only the revisions at which things were filed tell the orders apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial

from typing_extensions import assert_never

from airflow_dispatch.core.commits import (
    Adopted,
    Authorized,
    Begun,
    Body,
    Cancelled,
    Chosen,
    Commit,
    Concluded,
    Gone,
    Intended,
    Lost,
    NeverLanded,
    OpenedOutside,
    Quieted,
    Replied,
    Retired,
    Settled,
    Sight,
    Sighted,
)
from airflow_dispatch.core.identity import Mark, ObjectId
from airflow_dispatch.core.record import (
    Attempt,
    Call,
    Created,
    Decided,
    Incarnation,
    NotSent,
    ObjectState,
    Open,
    Outcome,
    OutcomeState,
    Record,
    Refused,
    Reply,
    Start,
    State,
    Stop,
    StopJob,
    Submission,
    Unclear,
    Withdraw,
)
from airflow_dispatch.errors import InvariantBroken, ensure


def begin(first: Commit) -> Record:
    """The record that consists of its first commit, at revision 1."""
    body = first.body
    if not isinstance(body, Begun):
        raise InvariantBroken(f"a record begins with its job, not with {body}")
    state = State(
        key=body.key,
        cluster=body.job.cluster,
        fingerprint=body.fingerprint,
        binding=body.binding,
        predecessor=body.predecessor,
        created_at=first.at,
    )
    return Record(1, state, body.job)


def apply(record: Record, commit: Commit) -> Record:
    """The record one commit later."""
    revision = record.revision + 1
    state = _fold(record.state, commit, revision)
    return Record(revision, state, record.job)


def _fold(state: State, commit: Commit, revision: int) -> State:  # noqa: C901 - one case a kind
    body: Body = commit.body
    match body:
        case Begun():
            raise InvariantBroken("a record begins once")
        case Authorized():
            return _authorized(state, body, revision)
        case Intended():
            return _intended(state, body, revision)
        case Chosen():
            return _chosen(state, body)
        case Retired():
            return _retired(state, body)
        case NeverLanded():
            return _attempt(state, body)
        case Gone():
            return _gone(state, body)
        case Lost():
            return _object(
                state,
                body.object,
                lambda o: replace(o, lost_at=o.lost_at if o.lost else body.began),
            )
        case OpenedOutside():
            return _object(state, body.object, lambda o: replace(o, opened_outside=True))
        case Concluded():
            return _concluded(state, body.outcome, commit.at, revision)
        case Quieted():
            ensure(state.outcome is not None, "only a job with an outcome can be quiet")
            return replace(state, quiet_at=body.began)
        case Settled():
            ensure(state.quiet_at is not None, "a job is quiet before it settles")
            return replace(state, settled_revision=revision)
        case Adopted():
            return replace(state, binding=body.binding)
        case Cancelled():
            cancelled = Outcome(OutcomeState.CANCELLED, actor=commit.actor, reason=body.reason)
            return state if state.outcome else _concluded(state, cancelled, commit.at, revision)
        case Sighted():
            return _sighted(state, body, revision)
        case Replied():
            return _replied(state, body, revision)
        case _:
            assert_never(body)


# --- decisions ------------------------------------------------------------------------------------


def _authorized(state: State, body: Authorized, revision: int) -> State:
    ensure(state.outcome is None, "nothing is authorized after an outcome [cancel-final]")
    ensure(body.number == len(state.submissions) + 1, "submissions are numbered without gaps")
    return replace(state, submissions=(*state.submissions, Submission(body.number, revision)))


def _intended(state: State, body: Intended, revision: int) -> State:
    ensure(body.number == state.calls_made + 1, "calls are numbered without gaps")
    call = Call(body.number, body.intent, revision, body.deadline)
    dropped = [old for old in state.calls if _repeats(body, old)]
    for old in dropped:
        if isinstance(old.intent, Open) and not isinstance(old.reply, NotSent):
            opened = old.intent.object
            state = _object(state, opened, lambda o: replace(o, may_have_opened=True))
    kept = tuple(old for old in state.calls if old not in dropped)
    state = replace(state, calls=(*kept, call), calls_made=body.number)
    match body.intent:
        case Start():
            return _attempted(state, body.intent, body.number)
        case Open():
            return _permitted(state, body.intent)
        case Stop() | StopJob() | Withdraw():
            return state
        case _:
            assert_never(body.intent)


def _repeats(new: Intended, old: Call) -> bool:
    """Whether the new call makes the old one superfluous on record.

    Decided only where the old one is over.
    """
    match new.intent, old.intent:
        case (Open(object=a, permit=p), Open(object=b, permit=q)):
            return (a, p) == (b, q)
        case (Withdraw(object=a, permit=p), Withdraw(object=b, permit=q)):
            return (a, p) == (b, q)
        case (StopJob(round=a), StopJob(round=b)):
            return a == b
        case _:
            return False


def _permitted(state: State, opening: Open) -> State:
    wanted, permit, newest = state.object(opening.object), opening.permit, state.newest
    ensure(state.outcome is None, "no gate is opened after an outcome [cancel-final]")
    if wanted is None or newest is None or newest.canonical != wanted.id:
        raise InvariantBroken("only the canonical object of the newest submission is opened")
    ensure(
        not any(
            i.started for i in wanted.incarnations if permit.first <= i.start_count <= permit.last
        ),
        "a permit never covers a start that was seen",
    )
    earlier = [known for owner, known in state.permits if owner == wanted.id]
    if permit in earlier:
        return state
    ensure(permit.number == len(earlier) + 1, "permits of an object are numbered without gaps")
    decided = [
        call.intent.permit
        for call in state.calls
        if isinstance(call.intent, Withdraw)
        and call.intent.object == wanted.id
        and isinstance(call.reply, Decided)
    ]
    ensure(all(known in decided for known in earlier), "a permit is decided before the next one")
    return replace(state, permits=(*state.permits, (wanted.id, permit)))


def _attempted(state: State, start: Start, call: int) -> State:
    ensure(state.outcome is None, "nothing is started after an outcome [cancel-final]")
    newest = state.newest
    if newest is None or newest.number != start.submission:
        raise InvariantBroken("only the newest submission is attempted")
    ensure(start.attempt == len(newest.attempts) + 1, "attempts are numbered without gaps")
    grown = replace(newest, attempts=(*newest.attempts, Attempt(start.attempt, start.tag, call)))
    return replace(state, submissions=(*state.submissions[:-1], grown))


def _chosen(state: State, body: Chosen) -> State:
    newest = state.newest
    if newest is None or newest.number != body.submission:
        raise InvariantBroken("a superseded submission gets no canonical object [authorized-only]")
    ensure(newest.canonical is None, "the canonical object is chosen once")
    found = state.object(body.object)
    if found is None or found.retired:
        raise InvariantBroken("the canonical object is known and not retired")
    ensure(
        found.mark.submission == body.submission and state.knows(found.mark),
        "the canonical object is of an attempt of its submission [authorized-only]",
    )
    return replace(
        state, submissions=(*state.submissions[:-1], replace(newest, canonical=body.object))
    )


def _retired(state: State, body: Retired) -> State:
    canonical = any(submission.canonical == body.object for submission in state.submissions)
    ensure(not canonical, "a canonical object is stopped where it must not run, never retired")
    return _object(state, body.object, lambda o: replace(o, retired=o.retired or body.reason))


def _gone(state: State, body: Gone) -> State:
    known = state.object(body.object)
    ensure(
        known is None or not known.started,
        "what was seen started is at most lost, never gone [evidence-only]",
    )
    return _object(state, body.object, lambda o: replace(o, gone_at=body.began))


def _attempt(state: State, body: NeverLanded) -> State:
    made = any(
        (submission.number, attempt.number) == (body.submission, body.attempt)
        for submission in state.submissions
        for attempt in submission.attempts
    )
    ensure(made, f"the record knows no attempt {body.attempt} of submission {body.submission}")

    def closed(submission: Submission) -> Submission:
        if submission.number != body.submission:
            return submission
        attempts = tuple(
            replace(a, never_landed=a.never_landed or a.number == body.attempt)
            for a in submission.attempts
        )
        return replace(submission, attempts=attempts)

    return replace(state, submissions=tuple(map(closed, state.submissions)))


def _concluded(state: State, outcome: Outcome, at: datetime, revision: int) -> State:
    ensure(state.outcome is None, "an outcome is committed once")
    return replace(state, outcome=outcome, outcome_revision=revision, outcome_at=at)


def _object(state: State, wanted: ObjectId, change: Callable[[ObjectState], ObjectState]) -> State:
    ensure(state.object(wanted) is not None, f"the record knows no object {wanted}")
    return replace(state, objects=tuple(change(o) if o.id == wanted else o for o in state.objects))


# --- evidence -------------------------------------------------------------------------------------


def _sighted(state: State, body: Sighted, revision: int) -> State:
    for sight in body.objects:
        state = _known(state, sight.id, sight.mark, revision)
        if state.quiet_at is not None and not sight.idle and body.began > state.quiet_at:
            state = _stirred(state)
        state = _learned(state, sight.id, partial(join_sight, sight=sight, began=body.began))
    return state


def _learned(state: State, wanted: ObjectId, change: Callable[[ObjectState], ObjectState]) -> State:
    """The state with more facts about an object; a start that it did not know of stirs it.

    However late the fact is: what was judged quiet was judged without that start.
    """
    before = state.object(wanted)
    state = _object(state, wanted, change)
    return state if _starts(before) == _starts(state.object(wanted)) else _stirred(state)


def _starts(known: ObjectState | None) -> tuple[tuple[int, bool], ...]:
    incarnations = () if known is None else known.incarnations
    return tuple((incarnation.start_count, incarnation.started) for incarnation in incarnations)


def join_sight(known: ObjectState, sight: Sight, began: datetime) -> ObjectState:
    """What is known of an object after a Find that began at `began` showed it so."""
    newer = known.shown_at is None or (began, sight.phase.order, sight.note) > (
        known.shown_at,
        known.phase.order,
        known.note,
    )
    return replace(
        known,
        shown_at=began if newer else known.shown_at,
        phase=sight.phase if newer else known.phase,
        note=sight.note if newer else known.note,
        incarnations=_joined(known.incarnations, sight.incarnations),
    )


def _joined(
    known: tuple[Incarnation, ...], shown: tuple[Incarnation, ...]
) -> tuple[Incarnation, ...]:
    merged = {incarnation.start_count: incarnation for incarnation in known}
    for incarnation in shown:
        old = merged.get(incarnation.start_count)
        merged[incarnation.start_count] = incarnation if old is None else old.join(incarnation)
    return tuple(merged[count] for count in sorted(merged))


def _replied(state: State, body: Replied, revision: int) -> State:
    ensure(body.call <= state.calls_made, f"call {body.call} of this record was never made")
    call = state.call(body.call)
    if call is None:  # It was over, and its repetition dropped it: the answer says nothing more.
        return state
    kept = _clearer(call.reply, body.reply)
    if kept != call.reply:
        answered = replace(call, reply=kept, reply_revision=revision)
        state = replace(
            state, calls=tuple(answered if c.number == call.number else c for c in state.calls)
        )
    match body.reply, call.intent:
        case (Created(object=made, gated=gated), Start(submission=n, attempt=m, tag=tag)):
            key = state.key
            mark = Mark(key.task.deployment, key.task.digest, key.generation, n, m, tag)
            state = _known(state, made, mark, revision)
            return _object(state, made, lambda o: replace(o, born_open=o.born_open or not gated))
        case (Decided(starts=starts), Withdraw(object=asked)):
            began = tuple(Incarnation(count, started=True) for count, started in starts if started)
            return _learned(
                state, asked, lambda o: replace(o, incarnations=_joined(o.incarnations, began))
            )
        case _:
            return state


def _clearer(old: Reply | None, new: Reply) -> Reply:
    """Of two replies to one call the one that says more; ties by their text, whatever the order."""
    return new if old is None else max(old, new, key=lambda reply: (_clearness(reply), str(reply)))


def _clearness(reply: Reply) -> int:
    """No answer, a refusal, an answer: a stop may be refused before it is taken."""
    if isinstance(reply, (Unclear, NotSent)):
        return 0
    return 1 if isinstance(reply, Refused) else 2


def _known(state: State, wanted: ObjectId, mark: Mark, revision: int) -> State:
    if state.object(wanted) is not None:
        return state
    objects = sorted(
        (*state.objects, ObjectState(wanted, mark, revision)),
        key=lambda o: (o.mark.generation, o.mark.submission, o.mark.attempt, o.id),
    )
    return _stirred(replace(state, objects=tuple(objects)))


def _stirred(state: State) -> State:
    """A quiet record has something to look after again; its outcome stands [nothing-forgotten]."""
    return replace(state, quiet_at=None, settled_revision=0)
