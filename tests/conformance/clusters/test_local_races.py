"""Start against withdraw on real files and processes: the register is never wrong."""

import asyncio

import pytest

from airflow_dispatch.core.record import Decided, Done, Permit, Phase, Refused
from airflow_dispatch.testing.cluster_work import Scene, Work
from tests.conformance.clusters import local_tools as tools
from tests.conformance.clusters.harnesses import LocalHarness

pytestmark = pytest.mark.system

RACES = 200
AT_ONCE = 20


async def race(harness: LocalHarness, scene: Scene, *, seconds: float) -> bool:
    """Open, and withdraw a little later; whether it started, which all witnesses must agree on."""
    work = Work()
    sight = await scene.started(harness.job(work), scene.mark())
    assert await scene.open(sight) == Done()
    await asyncio.sleep(seconds)  # Spreads the withdraws over a shim's look at its gate.
    decided = await scene.withdraw(sight)
    assert isinstance(decided, Decided)
    assert await scene.withdraw(sight) == decided
    started = decided == Decided(((0, True),))
    if not started:
        # The gate is open again for the next permit, and only for that.
        assert decided == Decided(((0, False),))
        assert tools.is_gated(await scene.look(sight.id))
        assert isinstance(await scene.open(sight), Refused)
        assert await scene.stop(sight) == Done()
    sight = await scene.ended(sight)
    assert sight.started == started
    assert await harness.starts(work) == int(started)
    return started


async def test_two_hundred_races(local_harness: LocalHarness) -> None:
    """Whatever the moment, a start happens exactly if the withdraw says so."""
    outcomes: list[bool] = []
    for batch in range(RACES // AT_ONCE):
        scenes = [await Scene.of(local_harness) for _ in range(AT_ONCE)]
        outcomes += await asyncio.gather(
            *(
                race(local_harness, scene, seconds=(batch * AT_ONCE + n) * 0.2 / RACES)
                for n, scene in enumerate(scenes)
            )
        )
    assert len(outcomes) == RACES
    assert outcomes.count(True) > 10, "the starts never won"
    assert outcomes.count(False) > 10, "the withdraws never won"


async def test_ten_withdraws_at_once_agree(local_harness: LocalHarness) -> None:
    """Everybody who asks is told the same, and only one of them was first."""
    scene = await Scene.of(local_harness)
    sight = await scene.started(local_harness.job(Work()))
    answers = await asyncio.gather(*(scene.withdraw(sight) for _ in range(10)))
    assert set(answers) == {Decided(((0, False),))}
    assert tools.gate(local_harness, scene, sight) == [f"start.{sight.id}.1.0"]


async def test_a_permit_seen_too_late_opens_nothing(local_harness: LocalHarness) -> None:
    """A shim stalled past a permit's deadline and bound refuses it; the next call opens."""
    scene, work = await Scene.of(local_harness), Work()
    sight = await scene.started(local_harness.job(work))
    shim = tools.shim_of(local_harness, sight)
    tools.stall(shim)
    assert await scene.open(sight, seconds=0.2) == Done()
    assert (await scene.look(sight.id)).phase is Phase.QUEUED
    await asyncio.sleep(0.2 + 5 + 0.2)  # The deadline, the bound, and a moment.
    tools.resume(shim)
    await scene.until(sight, tools.is_gated)
    assert await local_harness.starts(work) == 0
    assert any(name.startswith("refused.") for name in tools.gate(local_harness, scene, sight))
    assert await scene.open(sight, permit=Permit(1, 0, 0)) == Done()
    assert (await scene.ended(sight)).started
