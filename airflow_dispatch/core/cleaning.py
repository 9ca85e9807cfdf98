"""After an outcome: stop what is alive, take every permit back, account for everything, settle.

Nothing is launched here, whatever the record says. Every pass stops whatever of the job is alive
and not yet stopping, duplicates, gated objects, revenants and ghosts included, until the job is
settled. For a cancel everything is stopped by the job's mark twice: at once, and again when nothing
is left that could revive an object. [cancel-final] [nothing-forgotten]
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_dispatch.core import judging, settlement
from airflow_dispatch.core.commits import Quieted, Settled
from airflow_dispatch.core.record import OutcomeState, Record
from airflow_dispatch.core.settlement import Unquiet
from airflow_dispatch.core.steps import (
    Context,
    Decide,
    Rest,
    Step,
    StepName,
    Wait,
    Waiting,
    WaitKind,
)
from airflow_dispatch.core.view import View


def step(record: Record, view: View, context: Context) -> Step:
    """The next step of a job that has its outcome."""
    return judging.first(_steps(record, view, context), lambda: _settling(record, view, context))


def _settling(record: Record, view: View, context: Context) -> Step:
    left = settlement.unquiet(record, view, context.capabilities, predecessors=context.predecessors)
    if not left.quiet:
        return Wait(tuple(_waits_of(record, context, left)))
    if record.state.quiet_at is None:
        return Decide(StepName.QUIET, Quieted(view.began))
    waits = _waits_to_settle(record)
    if waits:
        return Wait(waits)
    if record.state.settled_revision:
        return Rest()
    return Decide(StepName.SETTLE, Settled())


def _steps(record: Record, view: View, context: Context) -> Iterator[Step | None]:
    cancelled = _cancelled(record)
    if cancelled:
        yield judging.stop_job(record, context, 1)
    living = settlement.alive(record, view)
    for sight in living:
        if record.state.knows(sight.mark) or cancelled:
            reason = f"the job has its outcome ({record.state.outcome})"
            yield judging.stop(record, view, context, wanted=sight.id, reason=reason)
    for owner, permit in record.state.permits if context.capabilities.permits else ():
        yield judging.withdraw(record, context, owner, permit)
    yield judging.from_absence(record, view, context)
    if cancelled and not living and settlement.stop_job_answered(record.state, 1):
        yield judging.stop_job(record, context, 2)


def _cancelled(record: Record) -> bool:
    outcome = record.state.outcome
    return outcome is not None and outcome.state is OutcomeState.CANCELLED


def _waits_of(record: Record, context: Context, left: Unquiet) -> Iterator[Waiting]:
    """What an unquiet job waits for, in words."""
    if left.find_too_old:
        yield Waiting(WaitKind.LOOKING)
    for sight in left.alive:
        stopped = record.state.knows(sight.mark) or _cancelled(record)
        kind = WaitKind.STOPPING if stopped else WaitKind.FOREIGN
        yield Waiting(kind, f"{sight.id} is {sight.phase.value}")
    shown = [sight.id for sight in left.alive]
    for known in left.unaccounted:
        if known.id not in shown:
            until = judging.resolved_at(record, known, context)
            yield Waiting(WaitKind.LOST if known.lost else WaitKind.ENDING, known.id, until)
    for call in left.calls:
        yield judging.call_wait(call, context)
    for owner, permit in left.permits:
        yield Waiting(WaitKind.WITHDRAWAL, f"permit {permit.number} of {owner}")
    if left.stop_job_missing and not left.alive:
        answered = settlement.stop_job_answered(record.state, 2)
        kind = WaitKind.LOOKING if answered else WaitKind.STOPPING
        yield Waiting(kind, "everything that bears the job's mark")
    if left.predecessor:
        yield Waiting(WaitKind.PREDECESSOR, f"generation {record.state.predecessor}")


def _waits_to_settle(record: Record) -> tuple[Waiting, ...]:
    foreign = [Waiting(WaitKind.FOREIGN, s.id) for s in settlement.undisposed(record)]
    attempts = [
        Waiting(WaitKind.UNMATCHED, f"attempt {attempt.number} of submission {submission.number}")
        for submission, attempt in settlement.open_attempts(record)
    ]
    return (*foreign, *attempts)
