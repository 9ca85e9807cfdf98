"""What the tests of the local cluster need to know of its insides."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from airflow_dispatch.clusters.local import layout, proc
from airflow_dispatch.core.commits import Sight
from airflow_dispatch.core.record import Phase
from airflow_dispatch.testing.cluster_work import Scene
from tests.conformance.clusters.harnesses import LocalHarness


def entry_folder(harness: LocalHarness, sight: Sight) -> Path:
    """Where an object's entry is."""
    return Path(layout.spool(str(harness.root), sight.mark.task_digest), sight.id)


def submission_folder(harness: LocalHarness, scene: Scene, sight: Sight) -> Path:
    """Where an object's run is."""
    return Path(harness.cluster.places(scene.key, sight.id, sight.mark).run_folder)


def gate(harness: LocalHarness, scene: Scene, sight: Sight) -> list[str]:
    """The files of the permit protocol."""
    return names(submission_folder(harness, scene, sight) / layout.GATE)


def spooled(harness: LocalHarness, scene: Scene) -> list[str]:
    """Everything that is in the spool for a task, finished or not."""
    return names(Path(layout.spool(str(harness.root), scene.key.task.digest)))


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(path.name for path in folder.iterdir())


def entry(harness: LocalHarness, sight: Sight) -> dict[str, object]:
    """What a shim wrote of itself."""
    told: dict[str, object] = json.loads((entry_folder(harness, sight) / layout.ENTRY).read_text())
    return told


def rewrite_entry(harness: LocalHarness, sight: Sight, **changes: object) -> None:
    """Make an entry say something else."""
    path = entry_folder(harness, sight) / layout.ENTRY
    path.write_text(json.dumps({**entry(harness, sight), **changes}))


def shim_of(harness: LocalHarness, sight: Sight) -> proc.Process:
    """The object's living shim."""
    pid = entry(harness, sight)["pid"]
    assert isinstance(pid, int)
    found = proc.look(pid)
    assert found is not None, f"no process {pid}"
    return found


def kill_shim(harness: LocalHarness, sight: Sight) -> None:
    """Kill -9."""
    assert proc.send(shim_of(harness, sight), signal.SIGKILL)


async def until_gone(scene: Scene, process: proc.Process) -> None:
    """Wait for a process to be no more."""
    until = await scene.after(scene.harness.patience_seconds)
    while (now := proc.look(process.pid)) is not None and now.start == process.start:
        assert await scene.after(0) < until, f"{process} does not end"
        await scene.harness.pause()


def running_marks(sight: Sight) -> list[proc.Process]:
    """The processes that carry the object's start mark."""
    return proc.marked(layout.start_mark(sight.id, 0))


def unique_seconds() -> str:
    """For how long a test's `sleep` sleeps, so that it is known from all others on the host."""
    return f"61.{secrets.randbelow(10**9):09}"


def sleepers(seconds: str) -> list[proc.Process]:
    """The processes that sleep for just that long."""
    found = []
    for process in proc.everything():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process.pid}/cmdline").read_text() == f"sleep\0{seconds}\0":
                found.append(process)
    return found


def is_gated(sight: Sight) -> bool:
    """Whether the object waits at its gate."""
    return sight.phase is Phase.GATED


@contextlib.contextmanager
def bystander(environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any run, whatever its environment says."""
    process = subprocess.Popen(["/bin/sleep", "60"], env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def stall(process: proc.Process) -> None:
    """Keep a process from running."""
    assert proc.send(process, signal.SIGSTOP)


def resume(process: proc.Process) -> None:
    """Let a process run again."""
    assert proc.send(process, signal.SIGCONT)


def close(descriptor: int) -> None:
    """Close a descriptor, and let go of its lock."""
    os.close(descriptor)
