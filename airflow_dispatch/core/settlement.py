"""What gates and settlement rest on: over, alive, ended, gone, lost, accounted for, quiet.

All are pure functions of a record and a view. Each asks for positive evidence: an empty or failed
answer never makes one of them true, except where a complete Find that began after everything which
could still land was over shows that an object is not there (`may_be_gone`), or where the bounds
that the run enforces on itself have passed (`loss_resolved`). [evidence-only]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from typing_extensions import assert_never

from airflow_dispatch.core.commits import Sight
from airflow_dispatch.core.identity import JobKey, ObjectId
from airflow_dispatch.core.job import Unmatched
from airflow_dispatch.core.record import (
    Attempt,
    Call,
    Decided,
    Done,
    Incarnation,
    NotSent,
    ObjectState,
    Open,
    OutcomeState,
    Permit,
    Phase,
    Record,
    Refused,
    Source,
    Start,
    State,
    Stop,
    StopJob,
    Submission,
    Withdraw,
)
from airflow_dispatch.core.view import CallKind, Capabilities, View
from airflow_dispatch.errors import ensure


@dataclass(frozen=True, slots=True)
class Predecessor:
    """An earlier try's record, with this pass's view of it; it may be on another cluster."""

    record: Record
    view: View
    capabilities: Capabilities


# --- calls ----------------------------------------------------------------------------------------


def kind_of_call(call: Call) -> CallKind:
    """The kind under which capabilities speak of the call."""
    match call.intent:
        case Start():
            return CallKind.START
        case Open():
            return CallKind.OPEN
        case Stop():
            return CallKind.STOP
        case StopJob():
            return CallKind.STOP_JOB
        case Withdraw():
            return CallKind.WITHDRAW
        case _:
            assert_never(call.intent)


def over(call: Call, view: View, capabilities: Capabilities) -> bool:
    """Whether the call cannot land any more, and had not landed after the Find of `view` began."""
    if isinstance(call.reply, NotSent):
        return True
    final = kind_of_call(call) in capabilities.final_when_answered
    if call.answered and final and call.reply_revision <= view.base:
        return True
    landing = last_landing(call, capabilities)
    return landing is not None and landing < view.began


def last_landing(call: Call, capabilities: Capabilities) -> datetime | None:
    """The last moment at which the call can land (cluster time), where something bounds it."""
    return None if call.deadline is None else call.deadline + capabilities.call_bound


def pending(state: State, view: View, capabilities: Capabilities) -> Iterator[Call]:
    """The starts and opens that may still land.

    Stops and withdraws are waited for by what they bring about.
    """
    for call in state.calls:
        if isinstance(call.intent, (Start, Open)) and not over(call, view, capabilities):
            yield call


def calls_on(state: State, wanted: ObjectState) -> Iterator[Call]:
    """The starts and opens that could make or start this object."""
    for call in state.calls:
        match call.intent:
            case Start(submission=n, attempt=m) if (n, m) == (
                wanted.mark.submission,
                wanted.mark.attempt,
            ):
                yield call
            case Open(object=opened) if opened == wanted.id:
                yield call
            case _:
                pass


# --- attempts -------------------------------------------------------------------------------------


def landed(state: State, submission: Submission, attempt: Attempt) -> bool:
    """Whether an object of the attempt is known that is not judged gone."""
    return any(not known.gone for known in _objects_of(state, submission, attempt))


def reached(state: State, submission: Submission, attempt: Attempt) -> bool:
    """Whether any object of the attempt was ever known."""
    return any(True for _ in _objects_of(state, submission, attempt))


def _objects_of(state: State, submission: Submission, attempt: Attempt) -> Iterator[ObjectState]:
    for known in state.objects:
        numbers = (known.mark.submission, known.mark.attempt)
        if numbers == (submission.number, attempt.number) and state.knows(known.mark):
            yield known


def refusal(state: State, attempt: Attempt) -> Refused | None:
    """The clear no that the attempt's start got, if it did."""
    call = state.call(attempt.call)
    return call.reply if call is not None and isinstance(call.reply, Refused) else None


def unmatched(state: State, submission: Submission, attempt: Attempt) -> bool:
    """Neither a clear reply nor an object is known of the attempt, and nobody has closed it."""
    call = state.call(attempt.call)
    answered = call is not None and (call.answered or isinstance(call.reply, NotSent))
    return not (attempt.never_landed or answered or reached(state, submission, attempt))


def may_count_as_never_landed(
    record: Record, attempt: Attempt, view: View, capabilities: Capabilities
) -> bool:
    """Whether absence may close an unmatched attempt: its start was over before this empty Find."""
    call = record.state.call(attempt.call)
    return (
        record.job.unmatched is Unmatched.AUTO
        and capabilities.start_bounded
        and call is not None
        and call.revision <= view.base
        and over(call, view, capabilities)
        and not any(sight.mark.tag == attempt.tag for sight in view.snapshot.objects)
    )


# --- objects --------------------------------------------------------------------------------------


def alive(record: Record, view: View) -> tuple[Sight, ...]:
    """What the Find shows of the record that is not idle, gated objects included."""
    return tuple(sight for sight in view.of(record.state.key) if not sight.idle)


def permits_of(state: State, wanted: ObjectId) -> tuple[Permit, ...]:
    """Every permit that may exist for the object."""
    return tuple(permit for owner, permit in state.permits if owner == wanted)


def wanted_start(state: State, known: ObjectState) -> Incarnation | None:
    """The start that decides: the latest one seen that a permit covers, or the first of all.

    A later one that nobody here asked for is a revenant: its end is not the run's.
    [authorized-only]
    """
    last = max((permit.last for permit in permits_of(state, known.id)), default=0)
    seen = [incarnation for incarnation in known.incarnations if incarnation.start_count <= last]
    return seen[-1] if seen else None


def withdrawal(state: State, wanted: ObjectId, permit: Permit) -> Call | None:
    """The answered withdraw of the permit, if there is one."""
    for call in state.calls:
        if call.intent == Withdraw(wanted, permit) and isinstance(call.reply, Decided):
            return call
    return None


def opened(state: State, wanted: ObjectId) -> bool:
    """Whether an opening was ever committed for the object that was not filed as not sent."""
    known = state.object(wanted)
    return (known is not None and known.may_have_opened) or any(
        isinstance(call.intent, Open)
        and call.intent.object == wanted
        and not isinstance(call.reply, NotSent)
        for call in state.calls
    )


def may_be_gone(
    record: Record, wanted: ObjectState, view: View, capabilities: Capabilities
) -> bool:
    """Whether this Find, which lacks the object, shows that it never started and never can."""
    state = record.state
    return (
        absent(wanted, view)
        and not wanted.started
        and not opened(state, wanted.id)
        and _kept_from_starting(state, wanted, capabilities)
        and all(over(call, view, capabilities) for call in calls_on(state, wanted))
    )


def _kept_from_starting(state: State, wanted: ObjectState, capabilities: Capabilities) -> bool:
    """By its wrapper, which has no permit, or else by a gate that it was never seen without.

    Of a foreign object nobody here knows which permits it was given.
    """
    if capabilities.permits and state.knows(wanted.mark):
        return all(_won(state, wanted.id, permit) for permit in permits_of(state, wanted.id))
    released = wanted.born_open or wanted.opened_outside
    return not released and wanted.phase is Phase.GATED


def may_be_lost(
    record: Record, wanted: ObjectState, view: View, capabilities: Capabilities
) -> bool:
    """Whether the object may have run, is not found, and was never seen to end."""
    calls_over = all(over(call, view, capabilities) for call in calls_on(record.state, wanted))
    return absent(wanted, view) and calls_over and not wanted.ended and not wanted.gone


def absent(wanted: ObjectState, view: View) -> bool:
    """The Find does not show an object that the record knew before the Find began."""
    return wanted.first_revision <= view.base and view.shown(wanted.id) is None


def loss_resolved(
    record: Record, wanted: ObjectState, view: View, capabilities: Capabilities
) -> bool:
    """Whether nothing of a lost object can run any more, though nobody saw it end.

    By its exit record; by withdrawals won for every start of every permit; or because the time
    limit that its wrapper enforces, the grace of a stop and the bound of a call have passed since
    the Find that first lacked it.
    """
    end = last_end(record, wanted, capabilities)
    if end is None:
        return False
    if wanted.incarnations and all(map(_known_to_be_over, wanted.incarnations)):
        return True
    permits = permits_of(record.state, wanted.id)
    if (
        capabilities.permits
        and permits
        and all(_won(record.state, wanted.id, permit) for permit in permits)
    ):
        return True
    return end < view.began


def last_end(record: Record, wanted: ObjectState, capabilities: Capabilities) -> datetime | None:
    """The last moment at which a lost object can still run, by its wrapper's own limit."""
    if not wanted.lost or wanted.lost_at is None:
        return None
    limit = timedelta(seconds=record.job.time_limit_seconds + record.job.grace_seconds)
    return wanted.lost_at + limit + capabilities.call_bound


def _known_to_be_over(incarnation: Incarnation) -> bool:
    verdict = incarnation.verdict
    witnessed = verdict is not None and verdict.source is Source.EXIT_RECORD
    return incarnation.ended or witnessed


def _won(state: State, wanted: ObjectId, permit: Permit) -> bool:
    call = withdrawal(state, wanted, permit)
    return (
        call is not None
        and isinstance(call.reply, Decided)
        and not any(started for _, started in call.reply.starts)
    )


def accounted(record: Record, wanted: ObjectState, view: View, capabilities: Capabilities) -> bool:
    """Ended, or gone, or its loss resolved; and this Find does not show it otherwise."""
    sight = view.shown(wanted.id)
    if sight is not None and not sight.idle:
        return False
    return wanted.ended or wanted.gone or loss_resolved(record, wanted, view, capabilities)


# --- the whole job --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unquiet:
    """What still keeps a record from being quiet, for the one who waits to be told.

    All empty or False: quiet.
    """

    outcome_missing: bool = False
    find_too_old: bool = False
    alive: tuple[Sight, ...] = ()
    unaccounted: tuple[ObjectState, ...] = ()
    calls: tuple[Call, ...] = ()
    permits: tuple[tuple[ObjectId, Permit], ...] = ()
    stop_job_missing: bool = False
    predecessor: bool = False

    @property
    def quiet(self) -> bool:
        """Whether nothing is left."""
        return self == _QUIET


_QUIET = Unquiet()


def unquiet(
    record: Record, view: View, capabilities: Capabilities, *, predecessors: Sequence[Predecessor]
) -> Unquiet:
    """What keeps the record from being quiet, by a Find begun after its outcome [no-overlap].

    A record without an outcome is never quiet: a stalled supervisor may still launch from it.
    `predecessors` are the earlier tries, nearest first; a record is not quiet before its
    predecessor is.
    """
    chain = quiet_chain(record.state, predecessors)
    return replace(_unquiet_alone(record, view, capabilities), predecessor=not chain)


def _unquiet_alone(record: Record, view: View, capabilities: Capabilities) -> Unquiet:
    state = record.state
    second = _stop_job_answered(state, 2)
    return Unquiet(
        outcome_missing=state.outcome is None,
        find_too_old=state.outcome is not None and view.base < state.outcome_revision,
        alive=alive(record, view),
        unaccounted=tuple(o for o in state.objects if not accounted(record, o, view, capabilities)),
        calls=tuple(pending(state, view, capabilities)),
        permits=tuple(
            (owner, permit)
            for owner, permit in state.permits
            if capabilities.permits and not withdrawn_before(state, owner, permit, view)
        ),
        stop_job_missing=(
            state.outcome is not None
            and state.outcome.state is OutcomeState.CANCELLED
            and (second is None or second.reply_revision > view.base)
        ),
    )


def quiet_chain(state: State, predecessors: Sequence[Predecessor]) -> bool:
    """Whether all earlier tries are quiet, back to a settled one or to the first [no-overlap].

    Where one of them is missing from `predecessors` nothing is known of it, so the answer is no.
    """
    later = state
    for earlier in predecessors:
        key = earlier.record.state.key
        ensure(
            later.predecessor is not None and key == JobKey(later.key.task, later.predecessor),
            f"{key} is not the predecessor of {later.key}",
        )
        if not _unquiet_alone(earlier.record, earlier.view, earlier.capabilities).quiet:
            return False
        later = earlier.record.state
    return later.predecessor is None or later.settled_revision > 0


def stop_job_answered(state: State, round_: int) -> bool:
    """Whether the scheduler took that round of stopping everything; a refusal is no receipt."""
    return _stop_job_answered(state, round_) is not None


def _stop_job_answered(state: State, round_: int) -> Call | None:
    return next(
        (c for c in state.calls if c.intent == StopJob(round_) and isinstance(c.reply, Done)), None
    )


def withdrawn_before(state: State, wanted: ObjectId, permit: Permit, view: View) -> bool:
    """Whether the permit's withdrawal was answered before the Find of the view began."""
    call = withdrawal(state, wanted, permit)
    return call is not None and call.reply_revision <= view.base


def undisposed(record: Record) -> tuple[ObjectState, ...]:
    """Foreign objects that a person has to look at.

    They bear the full mark of this record, but of no attempt that it knows. One that a cancel
    stopped, and that ended or went, blocks no longer; any other does, shown or not.
    """
    state = record.state
    cancelled = state.outcome is not None and state.outcome.state is OutcomeState.CANCELLED
    return tuple(
        known
        for known in state.objects
        if not state.knows(known.mark) and not (cancelled and (known.ended or known.gone))
    )


def open_attempts(record: Record) -> tuple[tuple[Submission, Attempt], ...]:
    """The attempts that are still unmatched."""
    return tuple(
        (submission, attempt)
        for submission in record.state.submissions
        for attempt in submission.attempts
        if unmatched(record.state, submission, attempt)
    )
