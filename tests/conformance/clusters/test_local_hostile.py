"""Runs that do to their own files and host what no run should. They harm themselves at most."""

import asyncio
import sys

import pytest

from airflow_dispatch.clusters.local import layout
from airflow_dispatch.core.causes import Cause, CauseKind
from airflow_dispatch.core.job import Job
from airflow_dispatch.core.record import Decided, Done, Permit, Phase
from airflow_dispatch.errors import ClusterUnavailable
from airflow_dispatch.testing.cluster_suite import cause
from airflow_dispatch.testing.cluster_work import Scene, Work
from tests.conformance.clusters import local_tools as tools
from tests.conformance.clusters.harnesses import LocalHarness

pytestmark = pytest.mark.system


def job(script: str) -> Job:
    """A job with that script."""
    return Job(cluster="local", time_limit_seconds=60, script=script)


@pytest.mark.parametrize("removes", ["rm -rf ./*", 'rm -rf "$DISPATCH_RUN_DIR"'])
@pytest.mark.parametrize(("code", "ends"), [(0, None), (3, Cause(CauseKind.EXIT, 3))])
async def test_a_run_that_removes_its_own_folder(
    local_harness: LocalHarness, removes: str, code: int, ends: Cause | None
) -> None:
    """It is shown as started all the same, no withdraw says otherwise, and its end is known."""
    scene, work = await Scene.of(local_harness), Work(waits=True, exit_code=code)
    script = local_harness.script(work).replace("#!/bin/sh\n", f"#!/bin/sh\n{removes}\n")
    sight = await scene.running(work, job(script))
    assert not tools.submission_folder(local_harness, scene, sight).joinpath(layout.GATE).exists()
    sight = await scene.look(sight.id)
    assert (sight.phase, sight.started) == (Phase.RUNNING, True)
    assert await scene.open(sight) == Done(), "the permit was used"
    assert await scene.withdraw(sight) == Decided(((0, True),))
    assert await scene.withdraw(sight, Permit(2, 0, 0)) == Decided(((0, False),))
    await local_harness.release(work)
    sight = await scene.ended(sight)
    assert sight.incarnations[0].verdict is not None
    assert cause(sight) == ends
    assert (sight.started, sight.unreadable) == (True, False)


@pytest.mark.parametrize("made", ["mkfifo", "mkdir", "ln -s /dev/zero"])
async def test_what_is_no_file_is_not_waited_for(local_harness: LocalHarness, made: str) -> None:
    """A pipe, a folder or a device in place of output or result is told, and holds up no thread."""
    scene = await Scene.of(local_harness)
    script = f'rm output; {made} output; {made} "$DISPATCH_RESULT"; exit 0\n'
    sight = await scene.started(job(script))
    await scene.open(sight)
    sight = await scene.ended(sight)
    assert cause(sight) is None
    reading = (
        scene.cluster.read_output(scene.key, sight.id, sight.mark, offset=0, limit=100),
        scene.cluster.read_result(scene.key, sight.id, sight.mark),
    )
    for one in reading:
        with pytest.raises(ClusterUnavailable, match="no regular file"):
            await asyncio.wait_for(one, timeout=5)


@pytest.mark.parametrize("takes", ["RLIMIT_AS", "RLIMIT_NOFILE"])
async def test_a_shim_outlives_a_host_with_nothing_left(
    local_harness: LocalHarness, takes: str
) -> None:
    """While no process can be looked at, an end waits to be recorded: it is late and not lost."""
    script = (
        f"#!{sys.executable}\nimport os, resource, subprocess, time\n"
        f"shim, which = os.getppid(), resource.{takes}\n"
        "kept = resource.prlimit(shim, which)\n"
        "resource.prlimit(shim, which, (4, kept[1]))\n"
        "back = f'import resource, time; time.sleep(1.5);"
        " resource.prlimit({shim}, {which}, {kept})'\n"
        f"subprocess.Popen(['{sys.executable}', '-c', back])\n"
    )
    scene = await Scene.of(local_harness)
    sight = await scene.started(job(script))
    await scene.open(sight)
    sight = await scene.ended(sight)
    verdict = sight.incarnations[0].verdict
    assert verdict is not None
    assert verdict.cause is None, verdict
