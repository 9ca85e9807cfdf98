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
    for found in _steps(record, view, context):
        if found is not None:
            return found
    left = settlement.unquiet(record, view, context.capabilities, predecessors=context.predecessors)
    if not left.quiet:
        return Wait(waits_of(left))
    if record.state.quiet_at is None:
        return Decide(StepName.QUIET, Quieted(view.began))
    waits = _waits_to_settle(record)
    if waits:
        return Wait(waits)
    if record.state.settled_revision:
        return Rest()
    return Decide(StepName.SETTLE, Settled())


def _steps(record: Record, view: View, context: Context) -> Iterator[Step | None]:
    cancelled = (
        record.state.outcome is not None and record.state.outcome.state is OutcomeState.CANCELLED
    )
    if cancelled:
        yield judging.stop_job(record, context, 1)
    living = settlement.alive(record, view)
    for sight in living:
        if record.state.knows(sight.mark) or cancelled:
            reason = f"the job has its outcome ({record.state.outcome})"
            yield judging.stop(record, view, context, wanted=sight.id, reason=reason)
    for owner, permit in record.state.permits:
        yield judging.withdraw(record, context, owner, permit)
    yield judging.from_absence(record, view, context)
    if cancelled and not living:
        yield judging.stop_job(record, context, 2)


def waits_of(left: Unquiet) -> tuple[Waiting, ...]:
    """What an unquiet job waits for, in words."""
    waits: list[Waiting] = []
    if left.find_too_old or left.stop_job_missing:
        waits.append(Waiting(WaitKind.LOOKING))
    waits += [Waiting(WaitKind.STOPPING, f"{s.id} is {s.phase.value}") for s in left.alive]
    shown = {sight.id for sight in left.alive}
    waits += [
        Waiting(WaitKind.LOST if o.lost else WaitKind.ENDING, o.id)
        for o in left.unaccounted
        if o.id not in shown
    ]
    waits += [Waiting(WaitKind.CALL, f"call {c.number}", c.deadline) for c in left.calls]
    waits += [
        Waiting(WaitKind.WITHDRAWAL, f"permit {p.number} of {owner}") for owner, p in left.permits
    ]
    if left.predecessor:
        waits.append(Waiting(WaitKind.PREDECESSOR))
    return tuple(waits)


def _waits_to_settle(record: Record) -> tuple[Waiting, ...]:
    foreign = [Waiting(WaitKind.FOREIGN, s.id) for s in settlement.undisposed(record)]
    attempts = [
        Waiting(WaitKind.UNMATCHED, f"attempt {attempt.number} of submission {submission.number}")
        for submission, attempt in settlement.open_attempts(record)
    ]
    return (*foreign, *attempts)
