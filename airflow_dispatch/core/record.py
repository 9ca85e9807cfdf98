"""What a record holds: frozen values, each with the invariants that its constructor checks.

A record is the fold of its commits (`folding`); nothing else makes or changes a `State`. Facts
about the outside world (`ObjectState`, `Incarnation`, `Reply`) only ever grow: each has a join that
does not depend on the order in which the facts arrive. Judgements, intents and outcomes are
decisions, ordered by the revisions they were decided from.

Times are cluster time (what the scheduler's host said as a Find began) unless a field says
otherwise; revisions order everything that happens in the record itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from airflow_dispatch.core.causes import Cause
from airflow_dispatch.core.identity import JobKey, Mark, ObjectId
from airflow_dispatch.core.job import Job
from airflow_dispatch.errors import ensure


class OnClear(str, Enum):
    """What a cleared task does to a run that is still open."""

    RESTART = "restart"
    REATTACH = "reattach"


@dataclass(frozen=True, slots=True)
class Binding:
    """The task instance that wants this run, as its row read at creation or the last adoption."""

    dag_run_id: int
    """Surrogate key of the DAG run: a deleted and re-created run has the same run_id and another
    one of these."""
    ti_id: str
    try_number: int
    max_tries: int
    clear_number: int = 0
    on_clear: OnClear = OnClear.RESTART


# --- what is known of the outside -----------------------------------------------------------------


class Phase(str, Enum):
    """Where the scheduler showed an object, in the order in which an object moves through them."""

    GATED = "gated"
    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"

    @property
    def order(self) -> int:
        """Position among the phases, for joins."""
        return list(Phase).index(self)


class Source(str, Enum):
    """Who says how an incarnation ended, strongest first."""

    EXIT_RECORD = "exit_record"
    ACCOUNTING = "accounting"
    SCHEDULER = "scheduler"

    @property
    def rank(self) -> int:
        """0 outranks 1 outranks 2."""
        return list(Source).index(self)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one incarnation ended. `cause` is None exactly for success."""

    source: Source
    cause: Cause | None
    ended_at: datetime | None = None

    @property
    def succeeded(self) -> bool:
        """Whether this is success."""
        return self.cause is None

    @property
    def key(self) -> tuple[int, bool, str, str]:
        """Total order of verdicts: the least one wins a join."""
        ended = "" if self.ended_at is None else self.ended_at.isoformat()
        return (self.source.rank, self.cause is None, str(self.cause), ended)


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One start of one object (start count 0, 1, ...).

    `verdict` (how it ended) and `idle` (nothing of it can run any more) are two facts: a scheduler
    may call a run ended while its processes live on. [evidence-only]
    """

    start_count: int
    started: bool = False
    started_at: datetime | None = None
    host: str = ""
    verdict: Verdict | None = None
    idle: bool = False

    def join(self, other: Incarnation) -> Incarnation:
        """Everything that either knows."""
        ensure(self.start_count == other.start_count, "only facts about one start can be joined")
        return Incarnation(
            start_count=self.start_count,
            started=self.started or other.started,
            started_at=_least(self.started_at, other.started_at),
            host=max(self.host, other.host),
            verdict=_stronger(self.verdict, other.verdict),
            idle=self.idle or other.idle,
        )

    @property
    def ended(self) -> bool:
        """Known how it ended, and nothing of it can run."""
        return self.verdict is not None and self.idle


@dataclass(frozen=True, slots=True)
class ObjectState:
    """All that the record knows of one object."""

    id: ObjectId
    mark: Mark
    first_revision: int
    """The revision that first knew it: absence is judged only by a Find begun after that.
    [evidence-only]"""
    shown_at: datetime | None = None
    """Start of the latest Find that is on record as showing it; None while only a start's reply
    tells of it."""
    phase: Phase = Phase.GATED
    incarnations: tuple[Incarnation, ...] = ()
    note: str = ""
    """The scheduler's own words, for people."""
    born_open: bool = False
    """Its start was answered: created, but without its gate."""
    retired: str = ""
    """Why it will never run; empty while it may."""
    may_have_opened: bool = False
    """An opening of it that may have been sent was dropped from the calls by its repetition."""
    opened_outside: bool = False
    """It started without an opening of ours and was then taken over by a decision."""
    gone_at: datetime | None = None
    lost_at: datetime | None = None

    @property
    def started(self) -> bool:
        """Whether any start of it was ever shown."""
        return any(incarnation.started for incarnation in self.incarnations)

    @property
    def latest(self) -> Incarnation | None:
        """The incarnation with the highest start count seen."""
        return self.incarnations[-1] if self.incarnations else None

    @property
    def verdict(self) -> Verdict | None:
        """How its latest incarnation ended, as far as known."""
        return None if self.latest is None else self.latest.verdict

    @property
    def ended(self) -> bool:
        """Every incarnation ever seen has a verdict and is idle [no-overlap]."""
        return bool(self.incarnations) and all(i.ended for i in self.incarnations)

    @property
    def gone(self) -> bool:
        """Judged gone, not shown by any later Find on record, and not known to have started."""
        return _after(self.gone_at, self.shown_at) and not self.started

    @property
    def lost(self) -> bool:
        """Judged lost, and not shown by any later Find on record."""
        return _after(self.lost_at, self.shown_at) and not self.gone


# --- what was asked -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave to start: permit `number` of an object covers its start counts `first` to `last`."""

    number: int
    first: int
    last: int

    def __post_init__(self) -> None:
        ensure(
            self.number >= 1 and 0 <= self.first <= self.last,
            f"not a permit: {self.number} {self.first} {self.last}",
        )


@dataclass(frozen=True, slots=True)
class Start:
    """Create an object, gated."""

    submission: int
    attempt: int
    tag: str


@dataclass(frozen=True, slots=True)
class Open:
    """Lift the gate of an object under a permit."""

    object: ObjectId
    permit: Permit


@dataclass(frozen=True, slots=True)
class Stop:
    """End one object by its identity, gated or running."""

    object: ObjectId
    reason: str


@dataclass(frozen=True, slots=True)
class StopJob:
    """End everything that bears the job's mark; round 2 once nothing can revive an object."""

    round: int


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Decide every start of a permit that is not decided yet: it will never happen."""

    object: ObjectId
    permit: Permit


Intent = Start | Open | Stop | StopJob | Withdraw


@dataclass(frozen=True, slots=True)
class Created:
    """The start made this object; `gated` was read back, never assumed."""

    object: ObjectId
    gated: bool = True


@dataclass(frozen=True, slots=True)
class Refused:
    """The scheduler clearly said no. A temporary refusal may be tried again later."""

    reason: str
    permanent: bool


@dataclass(frozen=True, slots=True)
class Done:
    """The scheduler clearly took the call."""


@dataclass(frozen=True, slots=True)
class Decided:
    """Answer to a withdraw: of each start count, whether it started (True) or never can (False)."""

    starts: tuple[tuple[int, bool], ...]


@dataclass(frozen=True, slots=True)
class Unclear:
    """No clear answer: the call may have landed, may still land, or never will.

    Unknown is a value.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """The one who committed the call decided not to send it; nobody else may."""

    reason: str


Reply = Created | Refused | Done | Decided | Unclear | NotSent


@dataclass(frozen=True, slots=True)
class Call:
    """One call; its intent was committed before it was sent, and only its committer sends it.

    It stays on record until it is over, because nobody else can know whether it was sent
    [nothing-forgotten]. Stops are the exception: any supervisor may carry them out in any pass.
    """

    number: int
    intent: Intent
    revision: int
    deadline: datetime | None = None
    """Its executor refuses to start it after this (cluster time); None for stops and withdraws."""
    reply: Reply | None = None
    reply_revision: int = 0

    @property
    def answered(self) -> bool:
        """Whether the scheduler's answer is known and clear."""
        return self.reply is not None and not isinstance(self.reply, (Unclear, NotSent))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start call of a submission."""

    number: int
    tag: str
    call: int
    never_landed: bool = False


@dataclass(frozen=True, slots=True)
class Submission:
    """One authorized launch.

    Its canonical object is chosen once, by commit, and never recomputed.
    """

    number: int
    revision: int
    attempts: tuple[Attempt, ...] = ()
    canonical: ObjectId | None = None


# --- where it stands ------------------------------------------------------------------------------


class OutcomeState(str, Enum):
    """How the job ended, coarsely."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the job ended. `cause` goes with failed, `actor` and `reason` with cancelled."""

    state: OutcomeState
    cause: Cause | None = None
    actor: str = ""
    reason: str = ""
    object: ObjectId | None = None
    """The object that decided it, if one did."""

    def __post_init__(self) -> None:
        ensure(
            (self.state is OutcomeState.FAILED) == (self.cause is not None),
            "a cause goes with failed, and only there",
        )

    def __str__(self) -> str:
        match self.state:
            case OutcomeState.SUCCEEDED:
                return "succeeded"
            case OutcomeState.FAILED:
                return f"failed: {self.cause}"
            case OutcomeState.CANCELLED:
                return f"cancelled by {self.actor}: {self.reason}"


@dataclass(frozen=True, slots=True)
class State:
    """The fold of a record's commits, without the job description, which the first commit holds."""

    key: JobKey
    cluster: str
    fingerprint: str
    """Of the cluster the job belongs to; a Find from elsewhere is an error, never a view.
    [evidence-only]"""
    binding: Binding
    predecessor: int | None
    """Generation of the record that must be quiet before this one's gate opens. [no-overlap]"""
    created_at: datetime
    """By the clock of whoever created it; shown to people, never compared."""
    submissions: tuple[Submission, ...] = ()
    objects: tuple[ObjectState, ...] = ()
    """In order of (generation, submission, attempt, id)."""
    calls: tuple[Call, ...] = ()
    """In order of number; calls that are over and say nothing more are dropped by the commit that
    repeats them."""
    permits: tuple[tuple[ObjectId, Permit], ...] = ()
    """Every permit ever committed, sent or not."""
    calls_made: int = 0
    outcome: Outcome | None = None
    outcome_revision: int = 0
    outcome_at: datetime | None = None
    """By the clock of whoever committed it; for people."""
    quiet_at: datetime | None = None
    """Start of the Find by which the job was quiet; None again once something of it is shown alive
    after that."""
    settled_revision: int = 0
    """0 while not settled, and again once a settled job has something to clean up."""

    @property
    def newest(self) -> Submission | None:
        """The newest authorized submission."""
        return self.submissions[-1] if self.submissions else None

    def object(self, wanted: ObjectId) -> ObjectState | None:
        """The object of that id, if the record knows it."""
        return next((o for o in self.objects if o.id == wanted), None)

    def call(self, number: int) -> Call | None:
        """The call of that number, if it is still on record."""
        return next((c for c in self.calls if c.number == number), None)

    def knows(self, mark: Mark) -> bool:
        """Whether the mark matches an attempt of this record, tag included; else it is foreign."""
        return mark.belongs_to(self.key) and any(
            (s.number, a.number, a.tag) == (mark.submission, mark.attempt, mark.tag)
            for s in self.submissions
            for a in s.attempts
        )


@dataclass(frozen=True, slots=True)
class Record:
    """A record as loaded: the job, the fold of its commits, and the revision of the last one."""

    revision: int
    state: State
    job: Job

    def __post_init__(self) -> None:
        ensure(self.revision >= 1, "a record begins with its first commit")


def _least(one: datetime | None, other: datetime | None) -> datetime | None:
    return min((moment for moment in (one, other) if moment is not None), default=None)


def _stronger(one: Verdict | None, other: Verdict | None) -> Verdict | None:
    return min(
        (verdict for verdict in (one, other) if verdict is not None),
        key=lambda v: v.key,
        default=None,
    )


def _after(judged: datetime | None, shown: datetime | None) -> bool:
    return judged is not None and (shown is None or shown <= judged)
