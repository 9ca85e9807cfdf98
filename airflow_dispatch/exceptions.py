"""What a Dispatch task raises: one exception per way in which a run can end without success.

The task's log shows the message; a retry policy or a callback can tell the kinds apart by class.
Every class is an `AirflowException`. Those that no retry of the same job can mend, by the table of
causes, are `AirflowFailException` too, so that Airflow fails the task without using up its retries.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_dispatch import errors
from airflow_dispatch.core.causes import CauseKind


class NotLaunched(errors.DispatchError, AirflowFailException):
    """Nothing was launched: the job, the connection or the configuration is wrong."""


class InvalidTask(errors.InvalidJob, AirflowFailException):
    """A parameter of the task is wrong as written; nothing was launched.

    An import error of the DAG. Of a mapped task the worker is the first to see it, before it calls
    the operator: there, too, no retry can mend it.
    """


class RunFailed(errors.RunFailed, AirflowException):
    """The run has an outcome other than success; `outcome` is what the task would have returned."""

    def __init__(self, message: str, outcome: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.outcome = outcome or {}


class RunCancelled(RunFailed, AirflowFailException):
    """The run was cancelled: by a person, or because no task instance wanted it any more."""


class Preempted(RunFailed):
    """The scheduler took the resources back for another job."""


class NodeLost(RunFailed):
    """The host or the process that held the run was lost."""


class OutOfMemory(RunFailed):
    """The run used more memory than it asked for."""


class TimeLimitReached(RunFailed):
    """The run reached its time limit and was stopped."""


class QueueLimitReached(RunFailed):
    """The run did not start within `start_within`."""


class NoCapacity(RunFailed, AirflowFailException):
    """The cluster can never provide what was asked for."""


class Rejected(RunFailed, AirflowFailException):
    """The cluster refused the job for good."""


class LaunchFailed(RunFailed):
    """No start call led to a run."""


class CommandFailed(RunFailed):
    """The command ended with an exit code other than 0."""


class CommandKilled(RunFailed):
    """The command was ended by a signal."""


class HeldByAdmin(RunFailed):
    """An administrator of the cluster holds the job."""


class DeadlinePassed(RunFailed):
    """The task's `execution_timeout` passed and the run was stopped."""


class Stalled(RunFailed):
    """The run showed no sign of progress and was stopped."""


class ImageUnusable(RunFailed, AirflowFailException):
    """The container image could not be used."""


class QuotaExceeded(RunFailed):
    """A quota of the cluster was exceeded."""


class DependencyMissing(RunFailed):
    """Something that the job depends on is missing."""


class CancelledOutside(RunFailed):
    """Somebody stopped the run at the scheduler, not through Airflow."""


class ResultLost(RunFailed):
    """The run ended well, but its result could not be read."""


class EndUnknown(RunFailed):
    """How the run ended could not be learned."""


BY_CAUSE: dict[CauseKind, type[RunFailed]] = {
    CauseKind.PREEMPTED: Preempted,
    CauseKind.NODE_LOST: NodeLost,
    CauseKind.OUT_OF_MEMORY: OutOfMemory,
    CauseKind.TIME_LIMIT: TimeLimitReached,
    CauseKind.QUEUE_LIMIT: QueueLimitReached,
    CauseKind.NO_CAPACITY: NoCapacity,
    CauseKind.REJECTED: Rejected,
    CauseKind.LAUNCH_FAILED: LaunchFailed,
    CauseKind.EXIT: CommandFailed,
    CauseKind.SIGNAL: CommandKilled,
    CauseKind.HELD_BY_ADMIN: HeldByAdmin,
    CauseKind.DEADLINE: DeadlinePassed,
    CauseKind.STALLED: Stalled,
    CauseKind.IMAGE: ImageUnusable,
    CauseKind.QUOTA: QuotaExceeded,
    CauseKind.DEPENDENCY: DependencyMissing,
    CauseKind.CANCELLED_OUTSIDE: CancelledOutside,
    CauseKind.RESULT_LOST: ResultLost,
    CauseKind.UNKNOWN: EndUnknown,
}
