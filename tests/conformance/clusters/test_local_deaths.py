"""Who dies when: shims, those who started them, hosts. What is left is found, and ended."""

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_dispatch.clusters.local import entries, proc
from airflow_dispatch.core.causes import CauseKind
from airflow_dispatch.core.record import Created, Decided, Done, Phase, Refused, Source
from airflow_dispatch.errors import ClusterUnavailable
from airflow_dispatch.testing.cluster_suite import cause, kind
from airflow_dispatch.testing.cluster_work import Scene, Work
from tests.conformance.clusters import local_tools as tools
from tests.conformance.clusters.conftest import processes_of
from tests.conformance.clusters.harnesses import LocalHarness, local

pytestmark = pytest.mark.system


async def test_a_gated_shim_killed_is_node_lost(local_harness: LocalHarness) -> None:
    """The object of a shim that was killed at its gate has ended, unstarted and for good."""
    scene, work = await Scene.of(local_harness), Work()
    sight = await scene.started(local_harness.job(work))
    tools.kill_shim(local_harness, sight)
    sight = await scene.ended(sight)
    verdict = sight.incarnations[0].verdict
    assert verdict is not None
    assert verdict.source is Source.SCHEDULER
    assert (sight.phase, sight.started, kind(sight)) == (Phase.ENDED, False, CauseKind.NODE_LOST)
    reply = await scene.open(sight)
    assert isinstance(reply, Refused)
    assert reply.permanent
    assert await local_harness.starts(work) == 0


async def test_a_running_shim_killed_leaves_a_run_that_stops_can_end(
    local_harness: LocalHarness,
) -> None:
    """Without its shim a run is lost and alive; stops warn once and kill after the grace."""
    scene = await Scene.of(local_harness)
    sight = await scene.running(Work(waits=True, shrugs=True))
    tools.kill_shim(local_harness, sight)
    sight = await scene.until(sight, lambda s: s.incarnations[0].verdict is not None)
    assert (sight.phase, sight.idle, kind(sight)) == (Phase.RUNNING, False, CauseKind.NODE_LOST)
    assert tools.running_marks(sight)
    assert await scene.withdraw(sight) == Decided(((0, True),))
    assert await scene.stop(sight, grace=1) == Done()
    assert (await scene.look(sight.id)).phase is Phase.RUNNING, "nobody sees to its end"
    until = await scene.after(local_harness.patience_seconds)
    while not (await scene.look(sight.id)).idle:
        assert await scene.after(0) < until
        assert await scene.stop(sight, grace=1) == Done()
        await local_harness.pause()
    assert kind(await scene.look(sight.id)) is CauseKind.NODE_LOST
    assert not tools.running_marks(sight)


async def test_a_run_without_its_shim_is_warned_once(local_harness: LocalHarness) -> None:
    """However often a stop is repeated within its grace, the run hears one warning."""
    scene, work = await Scene.of(local_harness), Work(waits=True)
    job = local_harness.job(work)
    warned = "trap 'echo warned' TERM\n"
    sight = await scene.running(work, replace(job, script=f"#!/bin/sh\n{warned}{job.script}"))
    tools.kill_shim(local_harness, sight)
    await scene.until(sight, lambda s: s.incarnations[0].verdict is not None)
    for _ in range(5):
        assert await scene.stop(sight, grace=3600) == Done()
        await scene.moments(2)
    assert not (await scene.look(sight.id)).idle
    await local_harness.release(work)
    await scene.ended(sight)
    assert (await scene.output(sight)).count("warned") == 1


HIDE = """
import os, sys
environment = dict(os.environ) if "mark" in sys.argv else {}
if "descriptors" not in sys.argv:
    os.closerange(3, 100)
if "session" not in sys.argv:
    os.setsid()
os.execve("/bin/sleep", ["sleep", sys.argv[1]], environment)
"""


@pytest.mark.parametrize("keeps", ["mark", "descriptors", "session"])
async def test_what_is_left_is_found_by_any_of_its_traces(
    local_harness: LocalHarness, keeps: str
) -> None:
    """A process that keeps its mark, its descriptors or its session is found and ended."""
    scene, work = await Scene.of(local_harness), Work(waits=True)
    job = local_harness.job(work)
    seconds = tools.unique_seconds()
    python = f"{shlex.quote(sys.executable)} -c {shlex.quote(HIDE)}"
    hide = f"{python} {seconds} {keeps} &\nsleep 0.5\n"
    job = replace(job, script=job.script.replace("while", f"{hide}while", 1))
    sight = await scene.running(work, job)
    while not (hidden := tools.sleepers(seconds)):
        await local_harness.pause()
    tools.kill_shim(local_harness, sight)
    await scene.until(sight, lambda s: s.incarnations[0].verdict is not None)
    if keeps != "session":
        for process in tools.running_marks(sight):
            if process.pid not in {p.pid for p in hidden}:
                proc.send(process, signal.SIGKILL)
        await scene.moments()
        assert not (await scene.look(sight.id)).idle
    assert await scene.stop(sight) == Done()
    await scene.ended(sight)
    assert not tools.sleepers(seconds)


def test_who_looks_at_a_lock_does_not_hold_it(tmp_path: Path) -> None:
    """A supervisor that has a run's file open to look at it is no process of that run."""
    path = str(tmp_path / "alive")
    held = proc.lock(path)
    assert held is not None
    with subprocess.Popen(["/bin/sleep", "60"], pass_fds=[held]) as child:
        os.close(held)
        looking = os.open(path, os.O_RDONLY)
        try:
            assert [process.pid for process in proc.holders(path)] == [child.pid]
        finally:
            os.close(looking)
            child.kill()


async def test_what_nobody_can_see_is_alive_while_it_holds_the_lock(
    local_harness: LocalHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run in another container shows no process here; the lock that it inherited does."""
    scene = await Scene.of(local_harness)
    sight = await scene.running(Work(waits=True))
    monkeypatch.setattr(entries, "run_processes", lambda _: [])
    tools.kill_shim(local_harness, sight)
    sight = await scene.until(sight, lambda s: s.incarnations[0].verdict is not None)
    await scene.moments()
    assert not (await scene.look(sight.id)).idle
    for process in tools.running_marks(sight):
        proc.send(process, signal.SIGKILL)
    await scene.ended(sight)


async def test_stop_job_ends_what_a_dead_shim_left(local_harness: LocalHarness) -> None:
    """A warning is enough for a run that heeds it, with nobody to watch it."""
    scene = await Scene.of(local_harness)
    sight = await scene.running(Work(waits=True))
    tools.kill_shim(local_harness, sight)
    await scene.until(sight, lambda s: s.incarnations[0].verdict is not None)
    assert await scene.stop_job(grace=3600) == Done()
    assert kind(await scene.ended(sight)) is CauseKind.NODE_LOST


async def test_a_run_that_ends_after_its_shim_is_no_success(local_harness: LocalHarness) -> None:
    """A command that exits 0 with nobody to record it stays lost."""
    scene, work = await Scene.of(local_harness), Work(waits=True)
    sight = await scene.running(work)
    tools.kill_shim(local_harness, sight)
    await local_harness.release(work)
    assert kind(await scene.ended(sight)) is CauseKind.NODE_LOST


async def test_a_killed_shim_wakes_a_watch(local_harness: LocalHarness) -> None:
    """A shim that dies without a word ends the watch of its task at once."""
    scene = await Scene.of(local_harness)
    sight = await scene.started(local_harness.job(Work()))
    await scene.shown()
    waiting = asyncio.create_task(local_harness.cluster.watch(scene.key.task, seconds=60))
    await local_harness.pause()
    tools.kill_shim(local_harness, sight)
    await asyncio.wait_for(waiting, timeout=5)


async def test_a_person_may_end_a_shim(local_harness: LocalHarness) -> None:
    """SIGTERM to a shim is a stop: its run is warned and ended, and that is recorded."""
    scene = await Scene.of(local_harness)
    sight = await scene.running(Work(waits=True))
    assert proc.send(tools.shim_of(local_harness, sight), signal.SIGTERM)
    sight = await scene.ended(sight)
    found = cause(sight)
    assert found is not None
    assert found.kind is CauseKind.CANCELLED_OUTSIDE
    assert "SIGTERM" in found.detail


async def test_a_run_whose_entry_is_removed_ends(local_harness: LocalHarness) -> None:
    """What the queue does not show any more can never be stopped, so it does not go on."""
    scene = await Scene.of(local_harness)
    sight = await scene.running(Work(waits=True))
    shim = tools.shim_of(local_harness, sight)
    shutil.rmtree(tools.entry_folder(local_harness, sight))
    await tools.until_gone(scene, shim)
    assert not tools.running_marks(sight)
    assert await scene.shown() == ()


async def test_a_run_survives_an_unmounted_root(local_harness: LocalHarness) -> None:
    """While the root is away the run goes on; its end is recorded once the root is back."""
    scene, work = await Scene.of(local_harness), Work(waits=True)
    sight = await scene.running(work)
    away = local_harness.root.with_name("away")
    local_harness.root.rename(away)
    try:
        with pytest.raises(ClusterUnavailable, match="disk mounted"):
            await scene.shown()
        await asyncio.sleep(1.5)  # Longer than the shim takes to look for its entry.
        assert tools.running_marks(sight)
        await local_harness.release(work)
        while tools.running_marks(sight):
            await local_harness.pause()
    finally:
        away.rename(local_harness.root)
    assert cause(await scene.ended(sight)) is None


async def test_another_boot_is_the_end(local_harness: LocalHarness) -> None:
    """An entry of an earlier boot whose lock is free has ended, whatever marks seem to say."""
    scene = await Scene.of(local_harness)
    sight = await scene.running(Work(waits=True))
    tools.rewrite_entry(local_harness, sight, boot="0" * 8)
    assert (await scene.look(sight.id)).phase is Phase.RUNNING, "a lock that is held counts"
    tools.kill_shim(local_harness, sight)
    for process in tools.running_marks(sight):
        proc.send(process, signal.SIGKILL)
    with tools.bystander({proc.MARK: f"{sight.id}.0"}):
        sight = await scene.ended(sight)
        found = cause(sight)
    assert found is not None
    assert (sight.phase, found.kind) == (Phase.ENDED, CauseKind.NODE_LOST)
    assert "restarted" in found.detail


async def test_a_tag_lands_once_even_where_the_spool_was_wiped(
    local_harness: LocalHarness,
) -> None:
    """A late copy of a start makes nothing of a tag whose gate has any record."""
    scene = await Scene.of(local_harness)
    order = await scene.start_order(local_harness.job(Work()), scene.mark())
    assert isinstance(await local_harness.cluster.start(order), Created)
    sight = await scene.look(order.mark.tag)
    await scene.withdraw(sight)
    shim = tools.shim_of(local_harness, sight)
    shutil.rmtree(tools.entry_folder(local_harness, sight))
    await tools.until_gone(scene, shim)
    reply = await local_harness.cluster.start(order)
    assert isinstance(reply, Refused)
    assert reply.permanent
    assert await scene.shown() == ()


async def test_a_late_answer_to_a_start_is_still_a_gated_birth(
    local_harness: LocalHarness,
) -> None:
    """A start answered after another supervisor opened its object does not call it born open."""
    scene, work = await Scene.of(local_harness), Work(waits=True)
    order = await scene.start_order(local_harness.job(work), scene.mark())
    first = await local_harness.cluster.start(order)
    sight = await scene.look(order.mark.tag)
    await scene.open(sight)
    await scene.until(sight, lambda s: s.started)
    assert await local_harness.cluster.start(order) == first == Created(sight.id, gated=True)
    await local_harness.release(work)
    assert cause(await scene.ended(sight)) is None


async def test_of_another_host_nothing_is_judged(local_harness: LocalHarness) -> None:
    """An entry of another host is alive until records say otherwise: its locks are not ours."""
    scene = await Scene.of(local_harness)
    sight = await scene.running(Work(waits=True))
    tools.rewrite_entry(local_harness, sight, host="elsewhere", boot="0" * 8)
    tools.kill_shim(local_harness, sight)
    await scene.moments()
    sight = await scene.look(sight.id)
    assert (sight.phase, sight.idle) == (Phase.RUNNING, False)
    assert sight.incarnations[0].verdict is None
    assert "elsewhere" in sight.note


async def test_ended_objects_are_read_back_by_anybody(local_harness: LocalHarness) -> None:
    """A cluster object that never saw a run start tells how it ended."""
    scene = await Scene.of(local_harness)
    sight = await scene.ended(await scene.running(Work(exit_code=5, output="once")))
    fresh = local(local_harness.root)
    try:
        found = (await fresh.find((scene.key.task,))).objects
        piece = await fresh.read_output(scene.key, sight.id, sight.mark, offset=0, limit=100)
    finally:
        await fresh.close()
    assert found == (sight,)
    assert (piece.text, piece.complete) == ("once", True)


# --- those who start shims ------------------------------------------------------------------------

CLIENT = Path(__file__).with_name("dying_client.py")


async def test_who_starts_may_die_between_any_two_lines(
    local_harness: LocalHarness, tmp_path: Path
) -> None:
    """A supervisor killed at any line of a start leaves nothing, or one gated object."""
    scene = await Scene.of(local_harness)
    until = await scene.after(60)
    task = scene.key.task
    tags = tmp_path / "tags"
    await asyncio.to_thread(
        subprocess.run,
        [sys.executable, str(CLIENT), str(local_harness.root), task.run_id, str(tags)],
        check=True,
        timeout=120,
    )
    tried = set(tags.read_text().split())
    assert len(tried) > 50, "there are more lines than that"
    while _shims_without_entry(tried, {s.id for s in await scene.shown()}):
        assert await scene.after(0) < until
        await local_harness.pause()
    shown = await scene.shown()
    landed = {s.id for s in shown}
    assert landed < tried
    assert len(landed) > 10, "some were killed after they had landed"
    assert all(tools.is_gated(s) and not s.started for s in shown)
    assert all(s.mark == replace(scene.mark(), tag=s.id) for s in shown)
    assert await scene.stop_job() == Done()
    for sight in shown:
        await scene.ended(sight)
    assert not processes_of(local_harness.root)


def _shims_without_entry(tried: set[str], landed: set[str]) -> bool:
    """Whether a shim is on its way that has not landed its object yet."""
    for process in proc.everything():
        try:
            words = Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")
        except OSError:
            continue
        if tried.difference(landed).intersection(words):
            return True
    return False


@pytest.mark.parametrize("whom", ["a stranger with the pid", "a zombie"])
def test_a_reused_pid_is_nobody_we_know(whom: str) -> None:
    """No signal goes to a process that is not the one that was meant."""
    with tools.bystander({}) as bystander:
        now = proc.look(bystander.pid)
        assert now is not None
        if whom == "a zombie":
            bystander.send_signal(signal.SIGKILL)
            while proc.look(bystander.pid) is not None:
                pass
            assert not proc.send(now, signal.SIGKILL)
        else:
            assert not proc.send(now._replace(start=now.start - 1), signal.SIGKILL)
            assert bystander.poll() is None
            assert proc.send(now, signal.SIGTERM)


async def test_eight_starts_at_once_make_one_object(local_harness: LocalHarness) -> None:
    """One tag lands once, however often and fast its call is made; all are told the same."""
    scene = await Scene.of(local_harness)
    order = await scene.start_order(local_harness.job(Work()), scene.mark())
    replies = await asyncio.gather(*(local_harness.cluster.start(order) for _ in range(8)))
    assert len(set(replies)) == 1
    assert len(await scene.shown()) == 1
    assert tools.spooled(local_harness, scene) == [order.mark.tag]
    again = await local_harness.cluster.start(replace(order, mark=replace(order.mark, attempt=2)))
    assert isinstance(again, Refused)
    assert again.permanent
