"""The memory cluster keeps the contract that it stands in for."""

import pytest

from airflow_dispatch.core.causes import CauseKind
from airflow_dispatch.core.record import Done, Phase, Refused, Unclear
from airflow_dispatch.core.view import CallKind
from airflow_dispatch.errors import ClusterUnavailable
from airflow_dispatch.testing.cluster_suite import ClusterSuite, kind
from airflow_dispatch.testing.cluster_work import Scene, Work
from tests.conformance.clusters.harnesses import MemoryHarness


@pytest.fixture
def harness() -> MemoryHarness:
    """An empty cluster for each test."""
    return MemoryHarness()


class TestMemoryCluster(ClusterSuite):
    """The double passes the suite."""


# --- the hands ------------------------------------------------------------------------------------


async def test_a_lost_reply_leaves_its_effect(harness: MemoryHarness) -> None:
    """A start whose reply is lost is unclear, and its object is there."""
    scene = await Scene.of(harness)
    harness.cluster.lose_reply("start")
    order = await scene.start_order(harness.job(Work()), scene.mark())
    assert isinstance(await harness.cluster.start(order), Unclear)
    assert [s.mark for s in await scene.shown()] == [order.mark]
    assert harness.cluster.calls == [(CallKind.START, order)]


@pytest.mark.parametrize(("seconds", "lands"), [(29, True), (31, False)])
async def test_a_late_call_lands_before_its_deadline_or_never(
    harness: MemoryHarness, seconds: int, lands: bool
) -> None:
    """A call that is held back takes effect when it lands, unless its deadline has passed."""
    scene = await Scene.of(harness)
    harness.cluster.hold_back("start")
    order = await scene.start_order(harness.job(Work()), scene.mark(), seconds=30)
    assert isinstance(await harness.cluster.start(order), Unclear)
    harness.cluster.advance(seconds)
    assert await scene.shown() == ()
    harness.cluster.land()
    assert bool(await scene.shown()) == lands
    harness.cluster.land()
    assert len(await scene.shown()) == int(lands)


async def test_a_start_that_lands_twice_makes_twins(harness: MemoryHarness) -> None:
    """Two objects bear one mark, as a scheduler makes them that is asked twice."""
    scene = await Scene.of(harness)
    harness.cluster.land_twice("start")
    sight = await scene.started(harness.job(Work()))
    assert [s.mark for s in await scene.shown()] == [sight.mark, sight.mark]
    assert len({s.id for s in await scene.shown()}) == 2


async def test_refusals_and_silence_are_made_to_order(harness: MemoryHarness) -> None:
    """The next call is refused with the given words; the next Find fails; then all is well."""
    scene = await Scene.of(harness)
    sight = await scene.started(harness.job(Work()))
    harness.cluster.refuse_next("open", "not now", permanent=False)
    assert await scene.open(sight) == Refused("not now", permanent=False)
    assert await scene.open(sight) == Done()
    harness.cluster.fail_finds(2)
    for _ in range(2):
        with pytest.raises(ClusterUnavailable):
            await scene.shown()
    assert len(await scene.shown()) == 1


async def test_what_the_world_does_is_shown(harness: MemoryHarness) -> None:
    """Queues, losses, ends and forgetting happen when the test says so."""
    harness.cluster.queueing = True
    scene = await Scene.of(harness)
    sight = await scene.started(harness.job(Work()))
    await scene.open(sight)
    assert (await scene.look(sight.id)).phase is Phase.QUEUED
    harness.cluster.starts_run(sight.id)
    assert (await scene.look(sight.id)).phase is Phase.RUNNING
    harness.cluster.node_lost(sight.id, idle=False)
    assert kind(await scene.look(sight.id)) is CauseKind.NODE_LOST
    assert not (await scene.look(sight.id)).idle
    harness.cluster.vanish(sight.id)
    assert await scene.shown() == ()
    foreign = scene.mark(attempt=9)
    harness.cluster.put("put-there", foreign, harness.job(Work()), phase=Phase.RUNNING)
    assert [(s.id, s.started) for s in await scene.shown()] == [("put-there", True)]
    harness.cluster.run_ends("put-there", 3, result="{}")
    assert kind(await scene.look("put-there")) is CauseKind.EXIT
