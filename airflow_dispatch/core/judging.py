"""Steps that launching and cleaning share: stops, withdraws, and the judgements from absence.

Each function answers with a step, or None where it has nothing to do. Judgements are decisions:
they are committed against the revision that was loaded before the Find they rest on.
[evidence-only]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from airflow_dispatch.core import settlement
from airflow_dispatch.core.commits import Gone, Intended, Lost, NeverLanded
from airflow_dispatch.core.identity import ObjectId
from airflow_dispatch.core.record import (
    Call,
    Intent,
    ObjectState,
    Permit,
    Phase,
    Record,
    Stop,
    StopJob,
    Withdraw,
)
from airflow_dispatch.core.steps import (
    Carry,
    Context,
    Decide,
    Send,
    Step,
    StepName,
    Wait,
    Waiting,
    WaitKind,
)
from airflow_dispatch.core.view import View


def intend(record: Record, intent: Intent) -> Intended:
    """The intent as the record's next call, without a deadline."""
    return Intended(record.state.calls_made + 1, intent)


def first(found: Iterable[Step | None], rest: Callable[[], Step]) -> Step:
    """The first of these steps, else the rest; a stop is carried out again where that waits.

    So a stop that has no effect, or takes longer than its pace, hides no other step.
    """
    again: Carry | None = None
    for step in found:
        if isinstance(step, Carry):
            again = again or step
        elif step is not None:
            return step
    left = rest()
    return again if again is not None and isinstance(left, Wait) else left


def stop(
    record: Record, view: View, context: Context, *, wanted: ObjectId, reason: str
) -> Step | None:
    """Stop one object that is shown alive: one intent, carried out until it shows effect."""
    sight = view.shown(wanted)
    if sight is None or sight.idle or sight.phase is Phase.STOPPING:
        return None
    for call in record.state.calls:
        if isinstance(call.intent, Stop) and call.intent.object == wanted:
            return None if call.number in context.paced else Carry(StepName.STOP, call)
    return Send(StepName.STOP, intend(record, Stop(wanted, reason)))


def stop_job(record: Record, context: Context, round_: int) -> Step | None:
    """Stop everything of the job at the scheduler; its clear reply is filed, for the receipt."""
    if settlement.stop_job_answered(record.state, round_):
        return None
    for call in record.state.calls:
        if call.intent == StopJob(round_):
            return None if call.number in context.paced else Carry(StepName.STOP_JOB, call)
    return Send(StepName.STOP_JOB, intend(record, StopJob(round_)))


def withdraw(record: Record, context: Context, wanted: ObjectId, permit: Permit) -> Step | None:
    """Decide every start of the permit that is still open.

    An unclear one is asked again, under a new intent.
    """
    if settlement.withdrawal(record.state, wanted, permit) is not None:
        return None
    before: Call | None = None
    for call in record.state.calls:
        if call.intent == Withdraw(wanted, permit):
            before = call
    if before is not None and before.number in context.paced:
        return None
    return Send(StepName.WITHDRAW, intend(record, Withdraw(wanted, permit)))


def from_absence(record: Record, view: View, context: Context) -> Step | None:
    """The first judgement that this complete Find allows about what it does not show."""
    for wanted in record.state.objects:
        judged = _object_from_absence(record, view, context, wanted)
        if judged is not None:
            return judged
    for submission, attempt in settlement.open_attempts(record):
        if settlement.may_count_as_never_landed(record, attempt, view, context.capabilities):
            return Decide(StepName.NEVER_LANDED, NeverLanded(submission.number, attempt.number))
    return None


def _object_from_absence(
    record: Record, view: View, context: Context, wanted: ObjectState
) -> Step | None:
    if wanted.gone or wanted.ended:
        return None
    if settlement.may_be_gone(record, wanted, view, context.capabilities):
        return Decide(StepName.GONE, Gone(wanted.id, view.began))
    if not wanted.lost and settlement.may_be_lost(record, wanted, view, context.capabilities):
        return Decide(StepName.LOST, Lost(wanted.id, view.began))
    return None


def call_wait(call: Call, context: Context) -> Waiting:
    """That a call may still land, until when at the latest."""
    kind = settlement.kind_of_call(call)
    return Waiting(WaitKind.CALL, f"call {call.number} ({kind.value})", over_at(call, context))


def over_at(call: Call, context: Context) -> datetime | None:
    """The first moment (cluster time) at which a Find can begin to which the call is over."""
    return _just_after(settlement.last_landing(call, context.capabilities))


def resolved_at(record: Record, wanted: ObjectState, context: Context) -> datetime | None:
    """The first moment at which a Find can begin that resolves the loss, whatever else is seen."""
    return _just_after(settlement.last_end(record, wanted, context.capabilities))


def _just_after(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment + timedelta(seconds=1)
