"""Where a job stands, with all that a page about it needs: the one value behind every view.

It is read once (`reading`) and is only looked at from there on, so that table, JSON, explanation
and check can never tell different things about one job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from airflow_dispatch.core import settlement
from airflow_dispatch.core.identity import JobKey, ObjectId
from airflow_dispatch.core.record import ObjectState, Record
from airflow_dispatch.core.status import Attendance, Status
from airflow_dispatch.ports.cluster import Places


@dataclass(frozen=True, slots=True)
class Standing:
    """A job as read at `now`, by the store's clock."""

    record: Record
    status: Status
    attendance: Attendance
    now: datetime
    earlier: tuple[Record, ...] = ()
    """The records of earlier tries that still matter, nearest first."""
    places: Mapping[ObjectId, Places] = field(default_factory=dict)
    """Where each object's folder and output are; empty where its connection is not there."""

    @property
    def key(self) -> JobKey:
        """Whose record it is."""
        return self.record.state.key

    @property
    def digest(self) -> str:
        """The record's primary key, by which commands take it."""
        return self.key.digest

    @property
    def held(self) -> bool:
        """Whether somebody holds an unexpired lease at this moment."""
        attendance = self.attendance
        return (
            bool(attendance.owner) and attendance.until is not None and attendance.until > self.now
        )

    @property
    def since(self) -> datetime:
        """When somebody last looked after the job; when it was made, if nobody ever has."""
        return self.attendance.until or self.record.state.created_at

    @property
    def foreign(self) -> tuple[ObjectState, ...]:
        """Objects that bear the mark of the job, are not its own, and still have to be seen to."""
        return settlement.undisposed(self.record)

    @property
    def alive(self) -> tuple[ObjectState, ...]:
        """Objects that had not ended when the cluster was last looked at."""
        return tuple(
            known
            for known in self.record.state.objects
            if not (known.gone or known.lost or _idle(known))
        )


def _idle(known: ObjectState) -> bool:
    return bool(known.incarnations) and all(start.idle for start in known.incarnations)
