"""Fixtures of the clusters under test: real ones are made empty and left without a process."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from airflow_dispatch.clusters.local import layout, proc
from tests.conformance.clusters.harnesses import LocalHarness


@pytest.fixture
async def local_harness(tmp_path: Path) -> AsyncIterator[LocalHarness]:
    """An empty local cluster; whatever the test leaves running there is ended after it."""
    harness = LocalHarness(tmp_path)
    await harness.cluster.probe(create=True)
    yield harness
    await harness.cluster.close()
    await end_everything(harness.root)


async def end_everything(root: Path) -> None:
    """End the shims of a run root and what they run, by what their entries and marks say."""
    left = processes_of(root)
    for _ in range(100):
        if not left:
            return
        for process in left:
            proc.send(process, signal.SIGKILL)
        await asyncio.sleep(0.02)
        left = processes_of(root)
    raise AssertionError(f"processes of {root} do not end: {left}")


def processes_of(root: Path) -> list[proc.Process]:
    """The shims of all objects in the spool of a run root, and all processes with their marks."""
    objects = {path.name for path in root.glob(f"{layout.SPOOL}/*/*") if path.is_dir()}
    found = []
    for process in proc.everything():
        if process.pid == os.getpid():
            continue
        arguments = _read(process.pid, "cmdline")
        environment = _read(process.pid, "environ")
        if any(
            name.encode() in arguments or f"{proc.MARK}={name}.".encode() in environment
            for name in objects
        ):
            found.append(process)
    return found


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
