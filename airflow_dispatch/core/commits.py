"""The closed union of commits: what may be appended to a record.

- **decisions** are committed against the exact revision they were decided from, under the lease of
  the supervisor where it has one;
- **acts** are decisions of a person or of Airflow, with actor and reason, without a lease, decided
  again on a conflict;
- **evidence** is what was positively shown or replied. It is committed at whatever the revision is
  by then, without a lease, because a late result is still a fact. Nothing judged from absence is
  ever evidence. [evidence-only]

`KINDS` names each body for the history, the codec and `docs/reference/steps.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from airflow_dispatch import limits
from airflow_dispatch.core.identity import JobKey, Mark, ObjectId
from airflow_dispatch.core.job import Job
from airflow_dispatch.core.record import Binding, Incarnation, Intent, Outcome, Phase, Reply
from airflow_dispatch.errors import ensure


class Weight(str, Enum):
    """How a commit meets a newer revision: a decision is made again, evidence is merged into it."""

    DECISION = "decision"
    ACT = "act"
    EVIDENCE = "evidence"


# --- decisions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Begun:
    """The first commit: the job, whose task wants it, and the cluster it belongs to."""

    key: JobKey
    job: Job
    binding: Binding
    fingerprint: str
    predecessor: int | None = None

    def __post_init__(self) -> None:
        ensure(
            self.predecessor is None or self.predecessor < self.key.generation,
            "a predecessor is an earlier generation",
        )


@dataclass(frozen=True, slots=True)
class Authorized:
    """Submission `number` may be launched; every earlier one is closed by it."""

    number: int


@dataclass(frozen=True, slots=True)
class Intended:
    """A call is about to be sent, by whoever commits this and by nobody else."""

    number: int
    intent: Intent
    deadline: datetime | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """The canonical object of a submission."""

    submission: int
    object: ObjectId


@dataclass(frozen=True, slots=True)
class Retired:
    """The object will never run."""

    object: ObjectId
    reason: str


@dataclass(frozen=True, slots=True)
class NeverLanded:
    """An unmatched attempt can no longer land, and a Find begun after that did not show it."""

    submission: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Gone:
    """The object never started and never can; it is not there any more.

    `began` is that of the Find which showed so.
    """

    object: ObjectId
    began: datetime


@dataclass(frozen=True, slots=True)
class Lost:
    """The object may have run and is not found; how it ended is not known."""

    object: ObjectId
    began: datetime


@dataclass(frozen=True, slots=True)
class OpenedOutside:
    """The canonical object started without our opening, but when it might have been opened."""

    object: ObjectId


@dataclass(frozen=True, slots=True)
class Concluded:
    """The outcome, once and for all."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Quieted:
    """Nothing of the job runs or can run any more; for a cancel: its clean-up is complete.

    `began` is that of the Find which showed so: what a later one shows alive undoes it.
    """

    began: datetime


@dataclass(frozen=True, slots=True)
class Settled:
    """Quiet, and nothing foreign or unmatched is left to dispose of."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """Another try of the task wants this same run."""

    binding: Binding


# --- acts -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A person, or Airflow by `classify`, ends the job.

    It changes nothing where an outcome stands already.
    """

    reason: str

    def __post_init__(self) -> None:
        ensure(
            len(self.reason) <= limits.REASON_CHARS_MAX, "a reason is cut by whoever takes it in"
        )


# --- evidence -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sight:
    """One object as a Find showed it.

    An incarnation stands for each start, and one for an object that ended before it ever started:
    start count 0, not started, with a verdict and, once nothing of it can run, idle. Without that
    the object counts as alive for ever.
    """

    id: ObjectId
    mark: Mark
    phase: Phase
    incarnations: tuple[Incarnation, ...] = ()
    note: str = ""
    unreadable: bool = False
    """The records its wrapper wrote could not be read; nothing is decided on them before
    `witness_wait`."""

    def __post_init__(self) -> None:
        counts = [i.start_count for i in self.incarnations]
        ensure(counts == sorted(set(counts)), "incarnations come once each, in order")

    @property
    def idle(self) -> bool:
        """Nothing of it can run, as shown."""
        return bool(self.incarnations) and all(i.idle for i in self.incarnations)

    @property
    def started(self) -> bool:
        """Whether any start of it is shown."""
        return any(i.started for i in self.incarnations)


@dataclass(frozen=True, slots=True)
class Sighted:
    """What a complete Find that began at `began` newly showed."""

    began: datetime
    objects: tuple[Sight, ...]


@dataclass(frozen=True, slots=True)
class Replied:
    """What came back from a call, or that it was not sent."""

    call: int
    reply: Reply


Decision = (
    Begun
    | Authorized
    | Intended
    | Chosen
    | Retired
    | NeverLanded
    | Gone
    | Lost
    | OpenedOutside
    | Concluded
    | Quieted
    | Settled
    | Adopted
)
Act = Cancelled
Evidence = Sighted | Replied
Body = Decision | Act | Evidence

KINDS: dict[type[Body], tuple[str, Weight]] = {
    Begun: ("begun", Weight.DECISION),
    Authorized: ("authorized", Weight.DECISION),
    Intended: ("intended", Weight.DECISION),
    Chosen: ("chosen", Weight.DECISION),
    Retired: ("retired", Weight.DECISION),
    NeverLanded: ("never_landed", Weight.DECISION),
    Gone: ("gone", Weight.DECISION),
    Lost: ("lost", Weight.DECISION),
    OpenedOutside: ("opened_outside", Weight.DECISION),
    Concluded: ("concluded", Weight.DECISION),
    Quieted: ("quieted", Weight.DECISION),
    Settled: ("settled", Weight.DECISION),
    Adopted: ("adopted", Weight.DECISION),
    Cancelled: ("cancelled", Weight.ACT),
    Sighted: ("sighted", Weight.EVIDENCE),
    Replied: ("replied", Weight.EVIDENCE),
}


def kind_of(body: Body) -> str:
    """The slug under which history and codec know the body."""
    return KINDS[type(body)][0]


def weight_of(body: Body) -> Weight:
    """Whether the body is a decision, an act or evidence."""
    return KINDS[type(body)][1]


@dataclass(frozen=True, slots=True)
class Commit:
    """One entry of a record's history.

    `id` is random and made once, so that a commit whose reply was lost is recognised when the
    record is read again.
    """

    id: str
    at: datetime
    """By the clock of whoever made it; for people, never compared."""
    actor: str
    """`supervisor:<owner>`, `person:<name>` or `airflow`."""
    body: Body
