"""Processes, as /proc shows them: who belongs to a run, and signals that reach nobody else.

A process id alone is never identity: ids are reused. A process is its id *and* its start time, and
belongs to a run if it descends from the run's shim or carries the run's start mark in its
environment. Signals go through a pidfd that is compared with the identity before it is used.

Linux only. The shim uses this module too: it imports little.
"""
# ruff: noqa: PTH116, PTH123, PTH208 - a shim starts faster without pathlib

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import signal
from collections.abc import Iterator
from typing import NamedTuple

from airflow_dispatch import limits

MARK = "DISPATCH_OBJECT"
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Process(NamedTuple):
    """One process at one moment. `start` is in clock ticks since the boot."""

    pid: int
    parent: int
    session: int
    start: int
    resident_bytes: int


@functools.cache
def boot_id() -> str:
    """Which boot of the host this is: read once, so that a host without descriptors has one."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def look(pid: int) -> Process | None:
    """The process, if it is there and is no zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in brackets may hold anything, brackets too.
    fields = text[text.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    parent, session = int(fields[1]), int(fields[3])
    return Process(pid, parent, session, int(fields[19]), int(fields[21]) * _PAGE)


def everything() -> Iterator[Process]:
    """Every process that is visible from here."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            process = look(int(name))
            if process is not None:
                yield process


def descendants(ancestor: int) -> list[Process]:
    """All processes below one, nearest first."""
    children: dict[int, list[Process]] = {}
    for process in everything():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    todo = [ancestor]
    for parent in todo:
        for child in children.get(parent, ()):
            found.append(child)
            todo.append(child.pid)
    return found


def marked(start_mark: str) -> list[Process]:
    """All processes that carry the start mark. Those of other users cannot be read."""
    wanted = f"\0{MARK}={start_mark}\0".encode()
    return [process for process in everything() if wanted in _environ(process.pid)]


def holders(path: str) -> list[Process]:
    """All processes with a descriptor that locks the file. Those of other users cannot be read.

    To have it open is not enough: so has whoever looks at it just now, and must not be signalled.
    """
    try:
        wanted = os.stat(path)
    except FileNotFoundError:
        return []
    return [process for process in everything() if _locks(process.pid, wanted)]


def _locks(pid: int, wanted: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):
                same = os.path.samestat(os.stat(f"/proc/{pid}/fd/{descriptor}"), wanted)
                if same and _is_locking(pid, descriptor):
                    return True
    return False


def _is_locking(pid: int, descriptor: str) -> bool:
    """Whether that descriptor, or what it was inherited from, holds an exclusive flock."""
    with open(f"/proc/{pid}/fdinfo/{descriptor}", encoding="ascii", errors="replace") as file:
        return any({"FLOCK", "WRITE"} <= set(line.split()) for line in file)


def _environ(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return b"\0" + file.read(limits.LOCAL_ENVIRON_BYTES_MAX) + b"\0"
    except OSError:
        return b""


def send(process: Process, signum: int) -> bool:
    """Signal that very process; False if it is not there any more."""
    with contextlib.ExitStack() as stack:
        try:
            handle = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return False
        stack.callback(os.close, handle)
        now = look(process.pid)
        if now is None or now.start != process.start:
            return False
        try:
            signal.pidfd_send_signal(handle, signum)
        except (ProcessLookupError, PermissionError):
            return False
    return True


def is_locked(path: str) -> bool:
    """Whether somebody holds the lock of that file.

    To be asked of files that were locked before anybody else could see them: looking takes a shared
    lock for a moment.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(opened)
    return False


def lock(path: str) -> int | None:
    """Open the file and lock it until the descriptor is closed; None if somebody else holds it."""
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        return None
    return opened
