"""The run root: made once, known by its marker, and nothing is judged without it."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from airflow_dispatch.clusters.local import layout
from airflow_dispatch.clusters.local import root as roots
from airflow_dispatch.core.record import Done, Phase, Refused
from airflow_dispatch.errors import ClusterMismatch, ClusterUnavailable, InvalidConfiguration
from airflow_dispatch.ports.cluster import StopJobOrder
from airflow_dispatch.testing.cluster_suite import cause, kind
from airflow_dispatch.testing.cluster_work import Scene, Work
from tests.conformance.clusters import local_tools as tools
from tests.conformance.clusters.conftest import end_everything
from tests.conformance.clusters.harnesses import LocalHarness, local

pytestmark = pytest.mark.system


async def test_only_a_first_use_makes_a_root(tmp_path: Path) -> None:
    """A probe without leave to create makes nothing; with it, missing and empty folders do."""
    for name in ("missing/deep", "empty"):
        root = tmp_path / name
        cluster = local(root)
        if name == "empty":
            root.mkdir()
        with pytest.raises(ClusterUnavailable, match="is its disk mounted"):
            await cluster.probe()
        assert not (root / layout.MARKER).exists()
        made = await cluster.probe(create=True)
        assert await cluster.probe() == made == await cluster.probe(create=True)
        assert made.fingerprint.endswith(f"@{os.uname().nodename}")
        await cluster.close()


async def test_a_folder_with_anything_in_it_becomes_no_root(tmp_path: Path) -> None:
    """A folder that is not empty and has no marker is refused by name and left as it is."""
    (tmp_path / "thesis.tex").touch()
    cluster = local(tmp_path)
    with pytest.raises(InvalidConfiguration, match=r"thesis\.tex"):
        await cluster.probe(create=True)
    assert tools.names(tmp_path) == ["thesis.tex"]
    await cluster.close()


async def test_first_uses_at_once_agree(tmp_path: Path) -> None:
    """Of many who make a root at once all get the same one."""
    clusters = [local(tmp_path / "root") for _ in range(8)]
    made = await asyncio.gather(*(cluster.probe(create=True) for cluster in clusters))
    assert len({capabilities.fingerprint for capabilities in made}) == 1
    for cluster in clusters:
        await cluster.close()


async def test_without_its_marker_nothing_is_done_or_seen(local_harness: LocalHarness) -> None:
    """With the marker gone every access fails and makes nothing; with it back all is as before."""
    scene, work = await Scene.of(local_harness), Work()
    sight = await scene.started(local_harness.job(work))
    order = await scene.start_order(local_harness.job(work), scene.mark(attempt=2))
    marker = local_harness.root / layout.MARKER
    text = marker.read_text()
    marker.unlink()
    cluster = local_harness.cluster
    calls = [
        cluster.start(order),
        cluster.stop_job(StopJobOrder(scene.key, scene.fingerprint, 1, "test")),
        scene.withdraw(sight),
        scene.stop(sight),
        cluster.find((scene.key.task,)),
        cluster.read_result(scene.key, sight.id, sight.mark),
        cluster.read_output(scene.key, sight.id, sight.mark, offset=0, limit=10),
    ]
    for call in calls:
        with pytest.raises(ClusterUnavailable, match=r"\.dispatch-root"):
            await call
    marker.write_text(text)
    assert [s.phase for s in await scene.shown()] == [Phase.GATED]
    marker.write_text(text.replace('"uuid": "', '"uuid": "0'))
    with pytest.raises(ClusterMismatch):
        await cluster.start(order)
    marker.write_text(text)
    assert await scene.open(sight) == Done()
    assert cause(await scene.ended(sight)) is None


def test_a_root_knows_its_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same folder seen from another host is another cluster."""
    here = roots.make(str(tmp_path / "root"))
    elsewhere = os.uname_result(("Linux", "elsewhere", "", "", ""))
    monkeypatch.setattr(os, "uname", lambda: elsewhere)
    assert roots.read(here.path).fingerprint == f"local:{here.uuid}@elsewhere"


# --- disks ----------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    mounted = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a small file system: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
async def small(disk: Path, tmp_path: Path) -> AsyncIterator[LocalHarness]:
    """A local cluster on the small disk; its works look at another one."""
    harness = LocalHarness(tmp_path)
    harness.root = disk / "root"
    harness.cluster = local(harness.root)
    await harness.cluster.probe(create=True)
    yield harness
    await harness.cluster.close()
    await end_everything(harness.root)


@contextlib.contextmanager
def read_only(disk: Path) -> Iterator[None]:
    """A read-only view of the disk in its place: a busy one cannot be made read-only itself."""
    subprocess.run(["mount", "--bind", str(disk), str(disk)], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", str(disk)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Use up the last byte."""
    path = disk / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(b"x" * size):
                    pass
    return path


async def test_a_full_disk_refuses_a_launch_for_now(small: LocalHarness, disk: Path) -> None:
    """Probe and start say that the disk is full; nothing is left; with space it goes on."""
    scene, work = await Scene.of(small), Work()
    filler = fill(disk)
    with pytest.raises(ClusterUnavailable, match="disk is full"):
        await small.cluster.probe(create=True)
    await small.cluster.probe()  # What runs can still be supervised.
    reply = await small.cluster.start(await scene.start_order(small.job(work), scene.mark()))
    assert isinstance(reply, Refused)
    assert not reply.permanent
    assert "No space left" in reply.reason
    assert await scene.shown() == ()
    filler.unlink()
    assert cause(await scene.ended(await scene.running(work))) is None


async def test_an_end_on_a_full_disk_is_late_and_not_lost(small: LocalHarness, disk: Path) -> None:
    """A run whose exit record finds no space is shown ending until there is some."""
    scene, work = await Scene.of(small), Work(waits=True)
    sight = await scene.running(work)
    filler = fill(disk)
    await small.release(work)
    await scene.moments(20)
    sight = await scene.look(sight.id)
    assert (sight.idle, sight.incarnations[0].verdict) == (False, None)
    filler.unlink()
    assert cause(await scene.ended(sight)) is None


async def test_a_full_disk_keeps_no_run_from_being_stopped(small: LocalHarness, disk: Path) -> None:
    """A stop that cannot be written reaches the run by a signal; a gate stays shut meanwhile."""
    scene, work = await Scene.of(small), Work(waits=True)
    sight = await scene.running(work)
    gated = await scene.started(small.job(Work()), scene.mark(attempt=2))
    filler = fill(disk)
    reply = await scene.open(gated)
    assert isinstance(reply, Refused)
    assert not reply.permanent
    assert await scene.stop_job() == Done()
    await scene.moments(10)
    filler.unlink()
    for stopped in (sight, gated):
        assert kind(await scene.ended(stopped)) is not None


async def test_a_read_only_disk_is_refused_in_a_sentence(small: LocalHarness, disk: Path) -> None:
    """Probe and start refuse a read-only disk; what runs there is still seen and stopped."""
    scene = await Scene.of(small)
    sight = await scene.running(Work(waits=True))
    with read_only(disk):
        with pytest.raises(InvalidConfiguration, match="read-only"):
            await small.cluster.probe(create=True)
        order = await scene.start_order(small.job(Work()), scene.mark(attempt=2))
        reply = await small.cluster.start(order)
        assert isinstance(reply, Refused)
        assert reply.permanent
        assert "Read-only" in reply.reason
        assert (await scene.look(sight.id)).phase is Phase.RUNNING
        assert await scene.stop(sight) == Done()
        await scene.moments(10)
    assert kind(await scene.ended(sight)) is not None


def test_a_folder_of_somebody_else_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """A root that may not be written is refused by name, with what to do."""
    root = tmp_path / "theirs"
    root.mkdir(mode=0o555)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o011)
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(InvalidConfiguration, match="may not write there") as caught:
            roots.make(str(root))
    finally:
        os.seteuid(mine)
    assert str(root) in str(caught.value)


async def test_an_entry_put_back_from_elsewhere_is_not_taken(local_harness: LocalHarness) -> None:
    """An entry that is not in its own place fails the Find instead of showing a wrong object."""
    scene, other = await Scene.of(local_harness), await Scene.of(local_harness)
    sight = await scene.started(local_harness.job(Work()))
    spool = local_harness.root / layout.SPOOL
    there = spool / other.key.task.digest
    there.mkdir()
    (there / sight.id).symlink_to(spool / scene.key.task.digest / sight.id)
    with pytest.raises(ClusterUnavailable, match="another object's"):
        await other.shown()
    assert [s.mark for s in await scene.shown()] == [sight.mark]
