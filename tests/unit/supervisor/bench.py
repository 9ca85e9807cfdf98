"""A whole world in memory for tests of the supervisor."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from airflow_dispatch.core.classify import TaskRow
from airflow_dispatch.core.commits import kind_of
from airflow_dispatch.core.identity import JobKey, TaskKey
from airflow_dispatch.core.job import Job
from airflow_dispatch.core.record import OnClear, Record
from airflow_dispatch.ports.cluster import Cluster
from airflow_dispatch.ports.store import Entry
from airflow_dispatch.stores.memory import MemoryStore
from airflow_dispatch.supervisor import loop, passes, resolve
from airflow_dispatch.supervisor.passes import Pace, Passed
from airflow_dispatch.supervisor.services import Services
from airflow_dispatch.testing.doubles import (
    CountingTokens,
    GivenClusters,
    GivenTasks,
    Lines,
    ManualClock,
)
from airflow_dispatch.testing.memory_cluster import Held, MemoryCluster

DEPLOYMENT = "deployment"
TASK = TaskKey(DEPLOYMENT, "dag", "run", "train")
JOB = Job(cluster="memory", command=("train",), time_limit_seconds=600, grace_seconds=10)
ROW = TaskRow(DEPLOYMENT, dag_run_id=1, ti_id="ti-1", state="deferred", try_number=1, max_tries=0)


@dataclass
class Bench:
    """One task on one cluster, and as many supervisors as a test asks for."""

    clock: ManualClock = field(default_factory=ManualClock)
    cluster: MemoryCluster = field(default_factory=MemoryCluster)
    tasks: GivenTasks = field(default_factory=lambda: GivenTasks({TASK: ROW}))
    paces: dict[str, Pace] = field(default_factory=dict)
    lines: Lines = field(default_factory=Lines)
    tokens: dict[str, CountingTokens] = field(default_factory=dict)

    others: dict[str, Cluster] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = MemoryStore(now=self.clock.now, deployment=DEPLOYMENT)

    def services(self, owner: str = "a") -> Services:
        """The services of one supervisor; each owner has its own tokens."""
        return Services(
            store=self.store,
            clusters=GivenClusters({"memory": self.cluster, **self.others}),
            clock=self.clock,
            tokens=self.tokens.setdefault(owner, CountingTokens(owner)),
            tasks=self.tasks,
            journal=self.lines,
            owner=owner,
        )

    async def made(self, *, job: Job = JOB, on_clear: OnClear = OnClear.RESTART) -> Record:
        """The record of the task's current try."""
        row = self.tasks.rows[TASK]
        asking = resolve.Try(TASK, row.ti_id or "", row.try_number, on_clear)
        return await resolve.resolve(self.services(), asking, job)

    async def one(self, owner: str = "a", generation: int = 1) -> Passed:
        """One pass by one supervisor, without a lease."""
        pace = self.paces.setdefault(owner, Pace())
        return await passes.one(self.services(owner), key(generation), lease=None, pace=pace)

    async def drive(self, owner: str = "a", generation: int = 1) -> Record:
        """Passes until nothing moves."""
        pace = self.paces.setdefault(owner, Pace())
        await loop.drive(self.services(owner), key(generation), pace=pace)
        return await self.record(generation)

    async def record(self, generation: int = 1) -> Record:
        """The record as of now."""
        found = await self.store.load(key(generation))
        assert found is not None
        return found

    async def kinds(self, generation: int = 1) -> list[str]:
        """The kinds of all commits so far."""
        return [kind_of(entry.commit.body) for entry in await self.history(generation)]

    async def history(self, generation: int = 1) -> tuple[Entry, ...]:
        """All commits so far."""
        return await self.store.history(key(generation))

    def only(self) -> Held:
        """The one object of the cluster."""
        (held,) = self.cluster.objects.values()
        return held

    def row(self, **changes: object) -> None:
        """Airflow's row of the task changes."""
        self.tasks.set(TASK, replace(self.tasks.rows[TASK], **changes))  # type: ignore[arg-type]  # by name

    def pass_time(self, seconds: float) -> None:
        """Everywhere."""
        self.clock.advance(seconds)
        self.cluster.advance(seconds)


def key(generation: int = 1) -> JobKey:
    """The key of the task's records."""
    return JobKey(TASK, generation)
