"""The hub shares Finds without ever handing out one that began before it was asked for.

[evidence-only]
"""

from __future__ import annotations

import asyncio

import pytest

from airflow_dispatch.core.identity import TaskKey
from airflow_dispatch.core.view import Snapshot
from airflow_dispatch.errors import ClusterUnavailable, TaskUnavailable
from airflow_dispatch.supervisor.hub import Hub
from airflow_dispatch.testing.memory_cluster import MemoryCluster

TASKS = [TaskKey("d", "dag", "run", f"task-{n}") for n in range(3)]


class SlowCluster(MemoryCluster):
    """A cluster whose Finds end when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[TaskKey, ...]] = []
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def find(self, tasks: tuple[TaskKey, ...]) -> Snapshot:
        """Record what was asked, and wait."""
        self.asked.append(tasks)
        began = self.now
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return Snapshot(self.fingerprint, began)


async def settle() -> None:
    """Let every task go as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def slow() -> SlowCluster:
    """A cluster that is still looking."""
    return SlowCluster()


async def test_jobs_that_ask_together_share_one_find(slow: SlowCluster) -> None:
    """Three jobs, one Find for all of their tasks."""
    hub = Hub(slow, interval_seconds=0)
    asking = [asyncio.create_task(hub.find((task,))) for task in TASKS]
    await settle()
    slow.go.set()
    await asyncio.gather(*asking)
    assert slow.asked == [tuple(TASKS)]


async def test_a_find_under_way_is_not_for_who_asks_later(slow: SlowCluster) -> None:
    """Who asks while a Find is under way waits for the next one, which begins after it asked."""
    hub = Hub(slow, interval_seconds=0)
    first = asyncio.create_task(hub.find((TASKS[0],)))
    await settle()
    asked_at = slow.now
    second = asyncio.create_task(hub.find((TASKS[1],)))
    await settle()
    assert len(slow.asked) == 1
    slow.advance(5)
    slow.go.set()
    await first
    assert (await second).began > asked_at
    assert slow.asked == [(TASKS[0],), (TASKS[1],)]


async def test_everyone_hears_of_a_failed_find(slow: SlowCluster) -> None:
    """A Find that fails is an error for all who waited, and the next one is asked anew."""
    hub = Hub(slow, interval_seconds=0)
    slow.error = ClusterUnavailable("silent")
    asking = [asyncio.create_task(hub.find((task,))) for task in TASKS]
    await settle()
    slow.go.set()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(answer) for answer in answers] == [ClusterUnavailable] * 3
    slow.error = None
    assert (await hub.find((TASKS[0],))).fingerprint == slow.fingerprint


async def test_one_who_gives_up_does_not_cost_the_others_theirs(slow: SlowCluster) -> None:
    """A cancelled waiter leaves the shared Find alone."""
    hub = Hub(slow, interval_seconds=0)
    gone, stays = (asyncio.create_task(hub.find((task,))) for task in TASKS[:2])
    await settle()
    gone.cancel()
    await settle()
    slow.go.set()
    assert (await stays).fingerprint == slow.fingerprint
    assert gone.cancelled()


async def test_one_job_that_cannot_be_read_stops_no_other(slow: SlowCluster) -> None:
    """Its own waiter hears the error; the others get a Find without it."""
    broken = TASKS[1]

    async def find(tasks: tuple[TaskKey, ...]) -> Snapshot:
        slow.asked.append(tasks)
        if broken in tasks:
            raise TaskUnavailable("its entry cannot be read", task_digest=broken.digest)
        return Snapshot(slow.fingerprint, slow.now)

    slow.find = find  # type: ignore[method-assign]  # a cluster with one broken job
    hub = Hub(slow, interval_seconds=0)
    answers = await asyncio.gather(*(hub.find((task,)) for task in TASKS), return_exceptions=True)
    assert [isinstance(answer, Snapshot) for answer in answers] == [True, False, True]
    assert isinstance(answers[1], ClusterUnavailable)
    assert len(slow.asked) == 2


async def test_a_cluster_that_blames_nobody_who_asked_is_an_error_for_all(
    slow: SlowCluster,
) -> None:
    """An answer about a task that nobody asked for ends the round, and not in a loop."""
    slow.error = TaskUnavailable("another's", task_digest="somebody else")
    slow.go.set()
    with pytest.raises(ClusterUnavailable):
        await Hub(slow, interval_seconds=0).find((TASKS[0],))
