"""Why a run did not succeed: typed causes, never just "failed".

One table says of each cause what it means, what to do, and whether a retry of the very same job can
help; the operator, the command line and `docs/reference/causes.md` read it. Adapters map what their
scheduler shows to these causes, each by one pure table of its own; what no table lists is
`UNKNOWN`, which keeps watching and never becomes success.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from airflow_dispatch import limits
from airflow_dispatch.errors import ensure


class CauseKind(str, Enum):
    """The slug of a cause, as records, events and the command line show it."""

    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    OUT_OF_MEMORY = "out_of_memory"
    TIME_LIMIT = "time_limit"
    QUEUE_LIMIT = "queue_limit"
    NO_CAPACITY = "no_capacity"
    REJECTED = "rejected"
    LAUNCH_FAILED = "launch_failed"
    EXIT = "exit"
    SIGNAL = "signal"
    HELD_BY_ADMIN = "held_by_admin"
    DEADLINE = "deadline"
    STALLED = "stalled"
    IMAGE = "image"
    QUOTA = "quota"
    DEPENDENCY = "dependency"
    CANCELLED_OUTSIDE = "cancelled_outside"
    RESULT_LOST = "result_lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Meaning:
    """One row of the table of causes."""

    text: str
    act: str
    retry_helps: bool
    """False where the same job would end the same way: the task then fails without using up its
    retries."""


MEANINGS: dict[CauseKind, Meaning] = {
    CauseKind.PREEMPTED: Meaning(
        "the scheduler took the resources back for another job",
        "retry, or ask for a better priority",
        retry_helps=True,
    ),
    CauseKind.NODE_LOST: Meaning(
        "the host or the process that held the run was lost",
        "retry; exclude the host if it happens again",
        retry_helps=True,
    ),
    CauseKind.OUT_OF_MEMORY: Meaning(
        "the run used more memory than it asked for",
        "ask for more memory or use less",
        retry_helps=True,
    ),
    CauseKind.TIME_LIMIT: Meaning(
        "the run reached its time limit and was stopped",
        "raise time_limit or resume from a checkpoint",
        retry_helps=True,
    ),
    CauseKind.QUEUE_LIMIT: Meaning(
        "the run did not start within start_within", "wait longer or ask for less", retry_helps=True
    ),
    CauseKind.NO_CAPACITY: Meaning(
        "the cluster can never provide what was asked for", "ask for less", retry_helps=False
    ),
    CauseKind.REJECTED: Meaning(
        "the cluster refused the job for good", "mend the job as the detail says", retry_helps=False
    ),
    CauseKind.LAUNCH_FAILED: Meaning(
        "no start call led to a run", "look at the cluster, then retry", retry_helps=True
    ),
    CauseKind.EXIT: Meaning(
        "the command ended with an exit code other than 0",
        "read the run's output",
        retry_helps=True,
    ),
    CauseKind.SIGNAL: Meaning(
        "the command was ended by a signal", "read the run's output", retry_helps=True
    ),
    CauseKind.HELD_BY_ADMIN: Meaning(
        "an administrator holds the job", "ask the administrator", retry_helps=True
    ),
    CauseKind.DEADLINE: Meaning(
        "the task's own deadline passed and the run was stopped",
        "raise the timeout",
        retry_helps=True,
    ),
    CauseKind.STALLED: Meaning(
        "the run showed no sign of progress and was stopped", "look for a hang", retry_helps=True
    ),
    CauseKind.IMAGE: Meaning(
        "the container image could not be used",
        "mend the image or its pull secret",
        retry_helps=False,
    ),
    CauseKind.QUOTA: Meaning(
        "a quota of the cluster was exceeded", "wait, or ask for more quota", retry_helps=True
    ),
    CauseKind.DEPENDENCY: Meaning(
        "something the job depends on is missing", "provide it, then retry", retry_helps=True
    ),
    CauseKind.CANCELLED_OUTSIDE: Meaning(
        "somebody stopped the run at the scheduler, not through Airflow",
        "ask who did, then retry",
        retry_helps=True,
    ),
    CauseKind.RESULT_LOST: Meaning(
        "the run ended well but its result could not be read", "run it again", retry_helps=True
    ),
    CauseKind.UNKNOWN: Meaning(
        "how the run ended could not be learned",
        "look at the cluster, then retry",
        retry_helps=True,
    ),
}


@dataclass(frozen=True, slots=True, order=True)
class Cause:
    """A cause with its number (exit code or signal) and the words of whoever reported it."""

    kind: CauseKind
    number: int | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        numbered = self.kind in (CauseKind.EXIT, CauseKind.SIGNAL)
        ensure(
            numbered == (self.number is not None),
            f"a number goes with exit and signal only: {self.kind}",
        )
        ensure(
            len(self.detail) <= limits.DETAIL_CHARS_MAX,
            "the detail of a cause is cut by whoever makes it",
        )

    @property
    def retry_helps(self) -> bool:
        """Whether running the very same job again can end otherwise."""
        return MEANINGS[self.kind].retry_helps

    def __str__(self) -> str:
        number = "" if self.number is None else f"({self.number})"
        return f"{self.kind.value}{number}" + (f": {self.detail}" if self.detail else "")
