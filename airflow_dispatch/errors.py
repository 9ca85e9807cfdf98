"""Every error that airflow_dispatch raises, in one tree.

A message says what happened, names the value, says what is true outside now (is a run still going
on?) and what to do about it. Adapters and stores translate the errors of their libraries at their
own edge and keep the cause, so nothing above them handles a driver's exception. Ordinary replies of
a scheduler or a store are values, not errors: see `airflow_dispatch.core.record` and
`airflow_dispatch.ports`.

This module imports nothing of the project and may be imported by all of it.
"""

from __future__ import annotations


class DispatchError(Exception):
    """Root of the tree; catch this to catch whatever this package raises on purpose."""


class InvariantBroken(DispatchError):
    """One of our own invariants does not hold: a defect here, never bad input."""


class InvalidJob(DispatchError, ValueError):
    """The job as written cannot be launched; nothing was launched."""


class InvalidConfiguration(DispatchError, ValueError):
    """A connection or an option is missing or wrong; nothing was launched because of it."""


class JobRefused(DispatchError):
    """The cluster cannot honour what the job asks for; nothing was launched, no record made."""


class ClusterUnavailable(DispatchError):
    """The scheduler did not answer in full. This says nothing about what runs there."""


class TaskUnavailable(ClusterUnavailable):
    """One task's part of a Find could not be had; the parts of other tasks could."""

    def __init__(self, message: str, *, task_digest: str) -> None:
        super().__init__(message)
        self.task_digest = task_digest


class ClusterMismatch(DispatchError):
    """What answered is not the cluster that the record names; its answer is no view of the job."""


class StoreUnavailable(DispatchError):
    """The record could not be read or written.

    What runs goes on; no new launch happens meanwhile.
    """


class UnknownRecord(DispatchError, LookupError):
    """No record has this key."""


class UnreadableRecord(DispatchError):
    """A record holds what this version does not know; no decision is taken on it."""


class OpenRecords(DispatchError):
    """Tables were not dropped, because they hold records of runs that may still go on."""


class RunFailed(DispatchError):
    """The run has a committed outcome other than success."""


def ensure(condition: object, message: str) -> None:
    """Raise `InvariantBroken(message)` unless `condition` is true. Always on, in production too."""
    if not condition:
        raise InvariantBroken(message)
