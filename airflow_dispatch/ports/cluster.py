"""The Cluster port: a scheduler that launches gated objects and can be looked at.

What every adapter promises, and `airflow_dispatch.testing.cluster_suite` checks:

- `find` answers in full or raises `ClusterUnavailable` (`TaskUnavailable`, where the other tasks'
  parts can be had); it holds every object that bears the mark of the asked tasks, of any try and
  submission, held, running, or ended as long as remembered, from a moment not before `began`;
- every object is born behind its gate; only `open` lifts it, and with permits only the start that
  the permit covers;
- a call is executed for the object with that very identity and mark or not at all, and not started
  after its deadline;
- what is not a clear answer is `Unclear`; a timeout is never a refusal;
- `watch` returns within its bound, and soon after something of the task changed.

A call whose order names another fingerprint raises `ClusterMismatch` and does nothing; whoever
asked for a Find compares the fingerprint of its snapshot with the record's. [evidence-only]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from airflow_dispatch.core.identity import JobKey, Mark, ObjectId, TaskKey
from airflow_dispatch.core.job import Job
from airflow_dispatch.core.record import Created, Decided, Done, Permit, Refused, Unclear
from airflow_dispatch.core.view import Capabilities, Snapshot


@dataclass(frozen=True, slots=True)
class StartOrder:
    """Create one gated object that carries the mark (its tag included)."""

    key: JobKey
    job: Job
    mark: Mark
    fingerprint: str
    deadline: datetime


@dataclass(frozen=True, slots=True)
class OpenOrder:
    """Write the permit and lift the gate of one object.

    `call` numbers the call among those of the record.
    """

    key: JobKey
    object: ObjectId
    mark: Mark
    fingerprint: str
    permit: Permit
    call: int
    deadline: datetime


@dataclass(frozen=True, slots=True)
class StopOrder:
    """End one object: warning signal, `grace_seconds`, kill; a gated one at once."""

    key: JobKey
    object: ObjectId
    mark: Mark
    fingerprint: str
    grace_seconds: int
    reason: str


@dataclass(frozen=True, slots=True)
class StopJobOrder:
    """End everything that bears this record's mark at the scheduler, foreign objects included."""

    key: JobKey
    fingerprint: str
    grace_seconds: int
    reason: str


@dataclass(frozen=True, slots=True)
class WithdrawOrder:
    """Decide each start of the permit that is not decided yet: withdrawn, for ever."""

    key: JobKey
    object: ObjectId
    mark: Mark
    fingerprint: str
    permit: Permit


@dataclass(frozen=True, slots=True)
class Output:
    """A piece of a run's output.

    `offset` is where the next piece begins; `complete` says that no more will come.
    """

    text: str
    offset: int
    complete: bool


@dataclass(frozen=True, slots=True)
class Places:
    """Where people find what a run left, on the cluster's hosts."""

    run_folder: str
    output: str
    result: str = ""
    """The file that `DISPATCH_RESULT` names."""


class Cluster(Protocol):
    """One named scheduler endpoint."""

    @property
    def name(self) -> str:
        """The Airflow connection id."""
        ...

    def refusals(self, job: Job) -> tuple[str, ...]:
        """One sentence for each field of the job that this kind of cluster cannot honour. Pure."""
        ...

    async def probe(self, *, create: bool = False) -> Capabilities:
        """What the cluster can do, asked of the cluster.

        `create` allows a first use to make what it needs there.
        """
        ...

    async def find(self, tasks: tuple[TaskKey, ...]) -> Snapshot:
        """Everything that bears the mark of one of the tasks, and what answered."""
        ...

    async def start(self, order: StartOrder) -> Created | Refused | Unclear:
        """Create the object."""
        ...

    async def open(self, order: OpenOrder) -> Done | Refused | Unclear:
        """Lift the gate."""
        ...

    async def stop(self, order: StopOrder) -> Done | Refused | Unclear:
        """Begin to end the object; done means that the request is there, not that it is gone."""
        ...

    async def stop_job(self, order: StopJobOrder) -> Done | Refused | Unclear:
        """Begin to end everything of the record."""
        ...

    async def withdraw(self, order: WithdrawOrder) -> Decided | Refused | Unclear:
        """Take the permit back; says for each start count who was first."""
        ...

    async def watch(self, task: TaskKey, *, seconds: float) -> None:
        """Return soon after something of the task may have changed; after `seconds` at most."""
        ...

    async def read_output(
        self, key: JobKey, object: ObjectId, mark: Mark, *, offset: int, limit: int
    ) -> Output:
        """Up to `limit` bytes of the object's output from a byte offset."""
        ...

    async def read_result(self, key: JobKey, object: ObjectId, mark: Mark) -> str | None:
        """The text of the run's `result.json`; None if it wrote none."""
        ...

    def places(self, key: JobKey, object: ObjectId, mark: Mark) -> Places:
        """Where the run's folder and output are. Pure."""
        ...

    async def close(self) -> None:
        """Give back connections. What runs goes on."""
        ...


class ClusterKind(Protocol):
    """How to make a cluster from a connection: what the entry points give.

    Their group is `airflow_dispatch.clusters`.

    `settings` is the connection's extra, as text values by name; secrets among them stay in the
    adapter.
    """

    @property
    def connection_type(self) -> str:
        """The Airflow connection type that this kind serves."""
        ...

    def connect(self, name: str, settings: Mapping[str, object]) -> Cluster:
        """Make the cluster; raises `InvalidConfiguration` naming the setting that is wrong.

        Contacts nothing.
        """
        ...
