"""`status_of(...)`: where a job stands, for people. One pure function of record and time.

Every surface shows it.

What the job waits for is not written down anywhere: it is what `decision.next` answers to the
record's own last view of the world. So no surface can say something else than what the supervisor
would do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from airflow_dispatch.core import decision, settlement
from airflow_dispatch.core.commits import Sight
from airflow_dispatch.core.record import ObjectState, Outcome, OutcomeState, Phase, Record
from airflow_dispatch.core.settlement import Predecessor
from airflow_dispatch.core.steps import Carry, Context, Decide, Rest, Send, StepName, Wait, Waiting
from airflow_dispatch.core.view import CallKind, Capabilities, Snapshot, View


class Stage(str, Enum):
    """Where a job is on its way, in one word."""

    LAUNCHING = "launching"
    GATED = "gated"
    QUEUED = "queued"
    RUNNING = "running"
    ENDING = "ending"
    CLEANING_UP = "cleaning_up"
    SETTLED = "settled"


class Receipt(str, Enum):
    """How far a cancel has come."""

    NONE = "none"
    COMMITTED = "committed"
    STOPPING = "stopping"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class Attendance:
    """Who looks after the job. `until` is the end of the last lease known, by the store's clock."""

    owner: str = ""
    until: datetime | None = None
    now: datetime | None = None
    """The store's clock when it was read."""

    def attended(self, grace: timedelta) -> bool:
        """Whether a lease is unexpired, or expired less than `grace` ago."""
        return self.until is not None and self.now is not None and self.now <= self.until + grace


@dataclass(frozen=True, slots=True)
class Status:
    """Where a job stands."""

    stage: Stage
    outcome: Outcome | None
    settled: bool
    receipt: Receipt
    unattended: bool
    """Not settled, and nobody has looked after it for longer than the grace: start a supervisor."""
    waits: tuple[Waiting, ...]
    next_step: StepName | None
    """What a supervisor would do at once; None while it would wait or rest."""
    attempts: int
    object: ObjectState | None
    """The canonical object of the newest submission."""


def status_of(
    record: Record,
    *,
    now: datetime,
    attendance: Attendance,
    grace: timedelta,
    earlier: Sequence[Record] = (),
) -> Status:
    """Where the job stands by its record.

    `earlier` are the records of earlier tries, nearest first.
    """
    state = record.state
    waits, next_step = _ahead(record, now, earlier)
    newest = state.newest
    canonical = (
        None if newest is None or newest.canonical is None else state.object(newest.canonical)
    )
    return Status(
        stage=_stage(record, canonical),
        outcome=state.outcome,
        settled=bool(state.settled_revision),
        receipt=_receipt(record),
        unattended=not state.settled_revision and not attendance.attended(grace),
        waits=waits,
        next_step=next_step,
        attempts=sum(len(s.attempts) for s in state.submissions),
        object=canonical,
    )


def _stage(record: Record, canonical: ObjectState | None) -> Stage:
    if record.state.settled_revision:
        return Stage.SETTLED
    if record.state.outcome is not None:
        return Stage.CLEANING_UP
    if canonical is None:
        return Stage.LAUNCHING
    return {
        Phase.GATED: Stage.GATED,
        Phase.QUEUED: Stage.QUEUED,
        Phase.RUNNING: Stage.RUNNING,
        Phase.STOPPING: Stage.ENDING,
        Phase.ENDED: Stage.ENDING,
    }[canonical.phase]


def _receipt(record: Record) -> Receipt:
    outcome = record.state.outcome
    if outcome is None or outcome.state is not OutcomeState.CANCELLED:
        return Receipt.NONE
    if record.state.quiet_at is not None:
        return Receipt.COMPLETE
    return Receipt.STOPPING if settlement.stop_job_answered(record.state, 1) else Receipt.COMMITTED


def _ahead(
    record: Record, now: datetime, earlier: Sequence[Record]
) -> tuple[tuple[Waiting, ...], StepName | None]:
    """What the supervisor would answer if the world still were as the record last saw it."""
    context = Context(
        capabilities=_assumed(record),
        tag="",
        predecessors=tuple(
            Predecessor(one, recorded_view(one, now), _assumed(one)) for one in earlier
        ),
    )
    match decision.next(record, recorded_view(record, now), context):
        case Wait(waits=waits):
            return waits, None
        case Decide(name=name) | Send(name=name) | Carry(name=name):
            return (), name
        case Rest():
            return (), None


def _assumed(record: Record) -> Capabilities:
    """Capabilities for an explanation, where the cluster is not asked."""
    return Capabilities(
        record.state.fingerprint, call_bound=timedelta(0), final_when_answered=frozenset(CallKind)
    )


def recorded_view(record: Record, now: datetime) -> View:
    """The world as the record last saw it, taken as if it were seen now."""
    objects = tuple(
        Sight(known.id, known.mark, known.phase, known.incarnations, known.note)
        for known in record.state.objects
        if not known.gone and not known.lost
    )
    return View(Snapshot(record.state.fingerprint, now, objects), record.revision)
