"""What one complete Find showed, as a decision sees it.

A `Snapshot` is what the scheduler holds for a task, all tries and submissions together, from a
moment not before `began`; it is complete or does not exist. A `View` adds which revision of the
record had been loaded before the Find began: what the record learned later must not be judged by
it. [evidence-only]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from airflow_dispatch.core.commits import Sight
from airflow_dispatch.core.identity import JobKey, ObjectId


class CallKind(str, Enum):
    """The kinds of call a cluster can be sent."""

    START = "start"
    OPEN = "open"
    STOP = "stop"
    STOP_JOB = "stop_job"
    WITHDRAW = "withdraw"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All objects that bear the mark of the asked tasks, foreign ones too, at `began`."""

    fingerprint: str
    began: datetime
    objects: tuple[Sight, ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """A snapshot as seen by one record that was at revision `base` before the Find began."""

    snapshot: Snapshot
    base: int

    @property
    def began(self) -> datetime:
        """Start of the Find, by the cluster's clock."""
        return self.snapshot.began

    def of(self, key: JobKey) -> Iterator[Sight]:
        """The objects of one record, matched or foreign, in a fixed order."""
        mine = (sight for sight in self.snapshot.objects if sight.mark.belongs_to(key))
        yield from sorted(mine, key=lambda s: (s.mark.submission, s.mark.attempt, s.id))

    def shown(self, wanted: ObjectId) -> Sight | None:
        """The object of that id, if it was shown."""
        return next((sight for sight in self.snapshot.objects if sight.id == wanted), None)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one cluster was found able to do when probed; the kind of adapter proves nothing."""

    fingerprint: str
    call_bound: timedelta
    """A call whose deadline has passed for longer than this has landed or never will."""
    start_bounded: bool = True
    """Start calls carry a deadline that something enforces; `Unmatched.AUTO` needs it."""
    permits: bool = True
    """A start needs a permit in the run folder, and can be withdrawn for ever."""
    durable: bool = False
    """The scheduler forgets nothing that has not ended."""
    final_when_answered: frozenset[CallKind] = field(default_factory=frozenset)
    """Kinds of call that cannot land any more once they were clearly answered."""
