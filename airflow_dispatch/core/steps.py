"""The vocabulary of `decision.next`: what else it is given, and the closed union of its answers.

A step is a value. `Decide` is a commit without a call; `Send` commits an intent and then makes that
call, once, by the same process; `Carry` makes an already committed stop again; `Wait` names
everything the job waits for; `Rest` means that nothing is left to do. `docs/reference/steps.md` has
a row for each `StepName` and each `WaitKind`, checked against this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from airflow_dispatch.core.commits import Decision, Intended
from airflow_dispatch.core.record import Call
from airflow_dispatch.core.settlement import Predecessor
from airflow_dispatch.core.view import Capabilities


class StepName(str, Enum):
    """Names of the steps, as the journal and the table of steps show them."""

    AUTHORIZE = "authorize"
    ATTEMPT = "attempt"
    CHOOSE = "choose"
    RETIRE = "retire"
    OPEN = "open"
    OPENED_OUTSIDE = "opened_outside"
    STOP = "stop"
    STOP_JOB = "stop_job"
    WITHDRAW = "withdraw"
    NEVER_LANDED = "never_landed"
    GONE = "gone"
    LOST = "lost"
    CONCLUDE = "conclude"
    QUIET = "quiet"
    SETTLE = "settle"


class WaitKind(str, Enum):
    """Everything a job can wait for."""

    LOOKING = "looking"
    CALL = "call"
    REFUSED = "refused"
    ATTEMPTS = "attempts"
    UNMATCHED = "unmatched"
    DUPLICATE = "duplicate"
    EARLIER_SUBMISSION = "earlier_submission"
    PREDECESSOR = "predecessor"
    ELSE_ALIVE = "else_alive"
    ASKED = "asked"
    QUEUED = "queued"
    RUNNING = "running"
    ENDING = "ending"
    WITNESS = "witness"
    LOST = "lost"
    STOPPING = "stopping"
    WITHDRAWAL = "withdrawal"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class WaitMeaning:
    """What a wait is, in plain words, and which promise holds the job back (empty: none does)."""

    text: str
    promise: str


WAITS: dict[WaitKind, WaitMeaning] = {
    WaitKind.LOOKING: WaitMeaning(
        "a look at the cluster that began after the last change", "evidence-only"
    ),
    WaitKind.CALL: WaitMeaning("a call that may still reach the cluster", "nothing-forgotten"),
    WaitKind.REFUSED: WaitMeaning("the next try after the cluster refused for now", ""),
    WaitKind.ATTEMPTS: WaitMeaning(
        "start calls that nobody answered: each may still create its object", "no-overlap"
    ),
    WaitKind.UNMATCHED: WaitMeaning(
        "a person to dispose of a start call that nobody answered", "nothing-forgotten"
    ),
    WaitKind.DUPLICATE: WaitMeaning("a duplicate of this launch to be gone", "no-overlap"),
    WaitKind.EARLIER_SUBMISSION: WaitMeaning(
        "the launch before this one to be accounted for", "no-overlap"
    ),
    WaitKind.PREDECESSOR: WaitMeaning(
        "the run of the task's earlier try to end for certain", "no-overlap"
    ),
    WaitKind.ELSE_ALIVE: WaitMeaning(
        "something else of this task that is still there", "no-overlap"
    ),
    WaitKind.ASKED: WaitMeaning(
        "a person's answer: keep or cancel (Airflow's rows leave it open)", "follows-the-task"
    ),
    WaitKind.QUEUED: WaitMeaning("the cluster to start the run", ""),
    WaitKind.RUNNING: WaitMeaning("the run to end", ""),
    WaitKind.ENDING: WaitMeaning(
        "the run's last processes to go, or word of how it ended", "evidence-only"
    ),
    WaitKind.WITNESS: WaitMeaning("the run's own records to become readable", "evidence-only"),
    WaitKind.LOST: WaitMeaning(
        "certainty about a run that the cluster does not show any more", "no-overlap"
    ),
    WaitKind.STOPPING: WaitMeaning("what was stopped to be gone", "nothing-forgotten"),
    WaitKind.WITHDRAWAL: WaitMeaning(
        "the leave to start to be taken back for ever", "authorized-only"
    ),
    WaitKind.FOREIGN: WaitMeaning(
        "a person to look at an object that bears our mark and is not ours", "nothing-forgotten"
    ),
}


@dataclass(frozen=True, slots=True)
class Waiting:
    """One thing the job waits for.

    `until` (cluster time) is when it changes at the latest without any event.
    """

    kind: WaitKind
    detail: str = ""
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Decide:
    """Commit this; no call follows from it."""

    name: StepName
    body: Decision


@dataclass(frozen=True, slots=True)
class Send:
    """Commit this intent, then make its call."""

    name: StepName
    body: Intended


@dataclass(frozen=True, slots=True)
class Carry:
    """Make this committed stop again; nothing is committed."""

    name: StepName
    call: Call


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do now; `waits` is never empty."""

    waits: tuple[Waiting, ...]

    @property
    def until(self) -> datetime | None:
        """When to look again at the latest, if any wait has an end."""
        return min((w.until for w in self.waits if w.until is not None), default=None)


@dataclass(frozen=True, slots=True)
class Rest:
    """The job is settled and nothing of it is alive."""


Step = Decide | Send | Carry | Wait | Rest


@dataclass(frozen=True, slots=True)
class Policy:
    """How patient the decision is.

    Defaults are those of the options in `docs/reference/configuration.md`.
    """

    call_seconds: int = 30
    """Deadline of a call, from the start of the Find it was decided on."""
    refusal_backoff_seconds: int = 10
    """After a first temporary refusal; doubles up to `refusal_backoff_seconds_max`."""
    refusal_backoff_seconds_max: int = 300
    witness_wait_seconds: int = 60
    """How long an end whose own records cannot be read stays undecided."""

    @property
    def call_time(self) -> timedelta:
        """`call_seconds` as a duration."""
        return timedelta(seconds=self.call_seconds)


@dataclass(frozen=True, slots=True)
class Context:
    """What `next` is told besides record and view. All of it is data."""

    capabilities: Capabilities
    tag: str
    """Fresh and random; used if the step is an attempt."""
    predecessors: Sequence[Predecessor] = ()
    """Earlier tries, nearest first, down to one that is settled or has no predecessor."""
    policy: Policy = Policy()
    paced: frozenset[int] = frozenset()
    """Calls that this process made a moment ago: not to be repeated yet. Only pace depends on
    it."""
    asked: bool = False
    """`classify` answered `ask`: what runs goes on, and no gate opens until a person answers."""
