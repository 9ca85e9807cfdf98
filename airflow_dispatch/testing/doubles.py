"""Doubles of the small ports, for tests that say exactly what happens.

Nothing here is random, waits, or reads a clock. `ManualClock` moves when it is told to (or by what
is slept), `CountingTokens` count, `GivenTasks` answer with the rows they were given, `Lines` keeps
the story. With `stores.memory.MemoryStore` and `testing.memory_cluster.MemoryCluster` they make a
whole world.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

from airflow_dispatch.core.classify import TaskRow
from airflow_dispatch.core.identity import TaskKey
from airflow_dispatch.core.view import Capabilities
from airflow_dispatch.errors import InvalidConfiguration, StoreUnavailable
from airflow_dispatch.ports.cluster import Cluster
from airflow_dispatch.ports.journal import Level

BEGINNING = datetime(2030, 1, 1, tzinfo=timezone.utc)


class ManualClock:
    """A clock that only `advance` and `sleep` move."""

    def __init__(self) -> None:
        self._now = BEGINNING
        self._slept: Callable[[float], None] | None = None

    def on_sleep(self, slept: Callable[[float], None]) -> None:
        """Call this with the seconds of each sleep, so that another clock can follow."""
        self._slept = slept

    def now(self) -> datetime:
        """See `Clock.now`."""
        return self._now

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return (self._now - BEGINNING) / timedelta(seconds=1)

    async def sleep(self, seconds: float) -> None:
        """Pass the time at once; others get their turn."""
        self.advance(seconds)
        if self._slept is not None:
            self._slept(seconds)
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += timedelta(seconds=seconds)


class CountingTokens:
    """Ids that count from 1, after a prefix that tells two of these apart."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._count = 0

    def fresh(self) -> str:
        """See `Tokens.fresh`."""
        self._count += 1
        return self._prefix + f"{self._count:032x}"[len(self._prefix) :]


@dataclass(slots=True)
class GivenTasks:
    """Airflow's rows as the test gives them; `fail` is how many reads get no answer first."""

    rows: dict[TaskKey, TaskRow] = field(default_factory=dict)
    fail: int = 0

    async def read(self, tasks: tuple[TaskKey, ...]) -> dict[TaskKey, TaskRow]:
        """See `Tasks.read`."""
        if self.fail:
            self.fail -= 1
            raise StoreUnavailable("the metadata database does not answer")
        return {task: self.rows.get(task, TaskRow(task.deployment)) for task in tasks}

    def set(self, task: TaskKey, row: TaskRow) -> None:
        """Replace the row."""
        self.rows[task] = replace(row, deployment=task.deployment)


@dataclass(slots=True)
class Lines:
    """A journal that keeps what it is told."""

    told: list[tuple[Level, str]] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    """The output, as it came."""
    told_before_output: int = 0
    """How many lines of the story stood before the latest piece of output."""

    def tell(self, level: Level, text: str) -> None:
        """See `Journal.tell`."""
        self.told.append((level, text))

    def output(self, text: str) -> None:
        """See `Journal.output`."""
        self.pieces.append(text)
        self.told_before_output = len(self.told)

    @property
    def written(self) -> str:
        """The output as one text."""
        return "".join(self.pieces)

    @property
    def text(self) -> str:
        """The story as one text."""
        return "\n".join(line for _, line in self.told)


@dataclass(slots=True)
class GivenClusters:
    """The clusters as the test gives them, by name."""

    clusters: dict[str, Cluster]

    async def get(self, name: str) -> Cluster:
        """See `Clusters.get`."""
        if name not in self.clusters:
            raise InvalidConfiguration(f"there is no Airflow connection {name!r}")
        return self.clusters[name]

    async def capabilities(self, name: str) -> Capabilities:
        """See `Clusters.capabilities`."""
        return await (await self.get(name)).probe()
