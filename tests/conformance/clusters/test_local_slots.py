"""CPUs of the local cluster: nobody gets more than there are, nobody overtakes, nothing leaks."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_dispatch.clusters.local import proc
from airflow_dispatch.core.commits import Sight
from airflow_dispatch.core.job import Resources
from airflow_dispatch.core.record import Decided, Done, Permit, Phase
from airflow_dispatch.testing.cluster_suite import cause
from airflow_dispatch.testing.cluster_work import Scene, Work
from tests.conformance.clusters import local_tools as tools
from tests.conformance.clusters.conftest import end_everything
from tests.conformance.clusters.harnesses import LocalHarness, local

pytestmark = pytest.mark.system


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[LocalHarness]:
    """A cluster of two cpus."""
    harness = LocalHarness(tmp_path)
    harness.cluster = local(harness.root, slots=2)
    await harness.cluster.probe(create=True)
    yield harness
    await harness.cluster.close()
    await end_everything(harness.root)


async def opened(scene: Scene, work: Work, *, cpus: int) -> Sight:
    """An object of so many cpus whose gate is open."""
    job = replace(scene.harness.job(work), resources=Resources(cpus_per_task=cpus))
    sight = await scene.started(job)
    assert await scene.open(sight) == Done()
    return sight


async def waits(scene: Scene, sight: Sight) -> None:
    """See the object in the line, and not running."""
    sight = await scene.until(sight, lambda s: "ahead of it" in s.note)
    assert (sight.phase, sight.started) == (Phase.QUEUED, False)


async def test_the_line_is_kept(harness: LocalHarness) -> None:
    """A narrow run does not overtake a wide one that was permitted before it."""
    one, wide, narrow = Work(waits=True), Work(waits=True), Work(waits=True)
    scenes = [await Scene.of(harness) for _ in range(3)]
    first = await opened(scenes[0], one, cpus=1)
    await scenes[0].until(first, lambda s: s.started)
    second = await opened(scenes[1], wide, cpus=2)
    await waits(scenes[1], second)
    third = await opened(scenes[2], narrow, cpus=1)
    await waits(scenes[2], third)
    await scenes[0].moments()
    assert (await scenes[1].look(second.id)).note == "waits for 2 cpus, 0 ahead of it"
    assert (await scenes[2].look(third.id)).note == "waits for 1 cpu, 1 ahead of it"
    await harness.release(one)
    await scenes[1].until(second, lambda s: s.started)
    await waits(scenes[2], third)
    await harness.release(wide)
    await scenes[2].until(third, lambda s: s.started)
    await harness.release(narrow)
    assert cause(await scenes[2].ended(third)) is None


async def test_a_slot_is_taken_while_the_run_lives(harness: LocalHarness) -> None:
    """The death of a shim frees no cpu that its run still uses; the end of the run does."""
    one, two = await Scene.of(harness), await Scene.of(harness)
    work = Work(waits=True)
    orphan = await one.running(
        work, replace(harness.job(work), resources=Resources(cpus_per_task=2))
    )
    tools.kill_shim(harness, orphan)
    await one.until(orphan, lambda s: s.incarnations[0].verdict is not None)
    later = await opened(two, Work(), cpus=1)
    await waits(two, later)
    await two.moments()
    await waits(two, later)
    await harness.release(work)
    await one.ended(orphan)
    assert cause(await two.ended(later)) is None


async def test_who_dies_in_the_line_holds_up_nobody(harness: LocalHarness) -> None:
    """The ticket of a killed shim is passed over."""
    scenes = [await Scene.of(harness) for _ in range(3)]
    work = Work(waits=True)
    first = await opened(scenes[0], work, cpus=2)
    await scenes[0].until(first, lambda s: s.started)
    dead = await opened(scenes[1], Work(), cpus=2)
    await waits(scenes[1], dead)
    last = await opened(scenes[2], Work(), cpus=2)
    await waits(scenes[2], last)
    tools.kill_shim(harness, dead)
    await scenes[1].ended(dead)
    await harness.release(work)
    assert cause(await scenes[2].ended(last)) is None


async def test_the_line_can_be_left(harness: LocalHarness) -> None:
    """A withdrawn permit puts a queued object back behind its gate, and a stop ends it there."""
    scenes = [await Scene.of(harness) for _ in range(3)]
    work = Work(waits=True)
    first = await opened(scenes[0], work, cpus=2)
    await scenes[0].until(first, lambda s: s.started)
    back, stopped = [await opened(scene, Work(), cpus=1) for scene in scenes[1:]]
    await waits(scenes[1], back)
    await waits(scenes[2], stopped)
    assert await scenes[1].withdraw(back) == Decided(((0, False),))
    assert tools.is_gated(await scenes[1].look(back.id))
    assert await scenes[2].stop(stopped) == Done()
    await scenes[2].ended(stopped)
    await harness.release(work)
    await scenes[0].ended(first)
    await scenes[0].moments()
    assert tools.is_gated(await scenes[1].look(back.id))
    assert await scenes[1].open(back, permit=Permit(2, 0, 0)) == Done()
    assert cause(await scenes[1].ended(back)) is None


async def test_many_runs_never_use_more_cpus_than_there_are(
    harness: LocalHarness, tmp_path: Path
) -> None:
    """Of twelve runs on two cpus at most two are there at any time, and all of them end well."""
    log = tmp_path / "log"
    script = f"#!/bin/sh\necho + >> {log}\nsleep 0.05\necho - >> {log}\n"
    scene = await Scene.of(harness)
    job = replace(harness.job(Work()), script=script)
    sights = [await scene.started(job, scene.mark(attempt=n)) for n in range(1, 13)]
    for sight in sights:
        assert await scene.open(sight) == Done()
    for sight in sights:
        assert cause(await scene.ended(sight)) is None
    level, highest = 0, 0
    for sign in log.read_text().split():
        level += 1 if sign == "+" else -1
        highest = max(highest, level)
    assert (level, highest) == (0, 2)


def test_a_lock_ends_with_its_holder(tmp_path: Path) -> None:
    """What one descriptor locks nobody else can, until it is closed."""
    path = str(tmp_path / "slot")
    held = proc.lock(path)
    assert held is not None
    assert proc.is_locked(path)
    assert proc.lock(path) is None
    tools.close(held)
    assert not proc.is_locked(path)
