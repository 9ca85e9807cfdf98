"""What triggers find in tests: the shipped doubles behind the real runtime, hub and supervisor.

Nothing happens in it by itself: `until` lets coroutines go on, and lets time pass for the cluster,
until the test's condition holds.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest

from airflow_dispatch.core import codec
from airflow_dispatch.core.job import Job
from airflow_dispatch.core.record import Record
from airflow_dispatch.errors import InvalidConfiguration
from airflow_dispatch.ports.cluster import Cluster
from airflow_dispatch.supervisor.services import Settings
from tests.unit.supervisor.bench import DEPLOYMENT, JOB, TASK, Bench

if TYPE_CHECKING:
    from airflow_dispatch.ports.store import Store
    from airflow_dispatch.ports.tasks import Tasks
    from airflow_dispatch.surface.connections import Values
    from airflow_dispatch.triggers.dispatch import DispatchTrigger

T = TypeVar("T")
TURNS_MAX = 20_000
__all__ = ["DEPLOYMENT", "JOB", "TASK", "World"]


@dataclass
class MemoryKind:
    """The kind of cluster that `memory` connections lead to: always the same one."""

    cluster: Cluster

    @property
    def connection_type(self) -> str:
        """Of the connections."""
        return "memory"

    def connect(self, name: str, settings: Mapping[str, object]) -> Cluster:
        """The one there is."""
        return self.cluster


@dataclass
class World:
    """A bench, and connections by name and type."""

    bench: Bench = field(default_factory=Bench)
    connections: dict[str, str] = field(
        default_factory=lambda: {"memory": "memory", "http_default": "http"}
    )
    reads: int = 0
    opened: int = 0
    closed: int = 0
    turns: int = 0

    async def read(self, name: str) -> Values:
        """See `Connections.read`."""
        from airflow_dispatch.surface.connections import Values

        self.reads += 1
        if name not in self.connections:
            raise InvalidConfiguration(f"there is no Airflow connection {name!r}")
        return Values(name, self.connections[name], {})

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let triggers find this world."""
        from airflow_dispatch.surface import clusters, runtime
        from airflow_dispatch.surface.clusters import ConnectedClusters
        from airflow_dispatch.surface.runtime import Runtime

        bench, world = self.bench, self
        bench.clock.on_sleep(bench.cluster.advance)

        class Counted(Runtime):
            async def close(self) -> None:
                world.closed += 1
                await super().close()

        def make(_connections: object) -> Runtime:
            world.opened += 1
            return Counted(
                store=cast("Store", Awaited(bench.store)),
                tasks=cast("Tasks", Awaited(bench.tasks)),
                clusters=ConnectedClusters(world, find_seconds=0),
                settings=Settings(),
                clock=bench.clock,
            )

        kinds = {"memory": MemoryKind(cast("Cluster", Awaited(bench.cluster)))}
        monkeypatch.setattr(runtime, "make", make)
        monkeypatch.setattr(clusters, "kinds", lambda: kinds)

    def trigger(
        self, job: Job = JOB, *, trigger_id: int | None = 1, **changes: Any
    ) -> DispatchTrigger:
        """The trigger of the try that Airflow's row shows now."""
        from airflow_dispatch.triggers.dispatch import DispatchTrigger

        row = self.bench.tasks.rows[TASK]
        arguments: dict[str, Any] = {
            "job": codec.encode_job(job),
            "dag_id": TASK.dag_id,
            "run_id": TASK.run_id,
            "task_id": TASK.task_id,
            "map_index": TASK.map_index,
            "ti_id": row.ti_id,
            "try_number": row.try_number,
        }
        trigger = DispatchTrigger(**(arguments | changes))
        trigger.trigger_id = trigger_id
        return trigger

    async def until(self, condition: Callable[[], object]) -> None:
        """Let everything go on until the condition holds."""
        for _ in range(TURNS_MAX):
            found = condition()
            if (await found) if inspect.isawaitable(found) else found:
                return
            await self.turn()
        raise AssertionError("it never came to that")

    async def turn(self) -> None:
        """Let every coroutine go on to its next await; a second passes with every twentieth."""
        self.turns += 1
        await asyncio.sleep(0)
        if self.turns % 20 == 0:
            self.bench.pass_time(1)

    def end_all(self) -> bool:
        """Every run that goes on ends well; False, so that a condition can do it on its way."""
        for held in self.bench.cluster.objects.values():
            if held.started_at is not None and held.verdict is None:
                self.bench.cluster.run_ends(held.id)
        return False

    async def finished(self, work: asyncio.Task[T]) -> T:
        """The result of a task, while the world goes on."""
        await self.until(work.done)
        return work.result()

    async def running(self) -> None:
        """Wait until one run has started."""
        await self.until(lambda: any(o.started_at for o in self.bench.cluster.objects.values()))

    async def record(self, generation: int = 1) -> Record:
        """The record of that generation."""
        return await self.bench.record(generation)


class Awaited:
    """A port whose every call suspends its caller before and after, as real ports do."""

    def __init__(self, port: object) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        """The method of the port, suspended around; anything else as it is."""
        found = getattr(self._port, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def suspended(*given: Any, **named: Any) -> Any:
            await asyncio.sleep(0)
            answer = await found(*given, **named)
            await asyncio.sleep(0)
            return answer

        return suspended


async def first_payload(trigger: DispatchTrigger) -> Any:
    """The payload of the first event; the trigger is left where it yielded it."""
    return (await anext(trigger.run())).payload


def begin(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Start it beside the test."""
    return asyncio.create_task(coroutine)
