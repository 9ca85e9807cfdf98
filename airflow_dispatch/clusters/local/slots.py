"""CPUs as slots, first come first served by the time of the permit.

A waiting shim holds a locked ticket whose name sorts by that time; only the holder of the first
live ticket may take slots, and takes all it needs or none. So nobody waits while holding something,
and nothing has to be cleaned up after a death: a lock goes with the process that held it. A slot is
a locked file whose descriptor the run inherits: it stays taken as long as anything of the run keeps
that descriptor, whatever became of the shim. Nobody overtakes, so a wide run is never starved.
"""
# ruff: noqa: PTH103, PTH104, PTH108, PTH110, PTH208 - a shim starts faster without pathlib

from __future__ import annotations

import contextlib
import os

from airflow_dispatch.clusters.local import layout, proc


class Line:
    """One shim's place in the line."""

    def __init__(self, root: str, object: str) -> None:
        self._queue = f"{root}/{layout.SPOOL}/{layout.QUEUE}"
        self._slots = f"{root}/{layout.SPOOL}/{layout.SLOTS}"
        self._object = object
        self._ticket = ""
        self._lock: int | None = None

    def take(self, cpus: int, *, slots: int, since: float) -> list[int]:
        """The descriptors of as many slots as asked, or none if it is not our turn yet."""
        self._enter(since)
        return _take(self._slots, cpus, slots=slots) if self._first() else []

    def leave(self) -> None:
        """Wait no longer."""
        if self._lock is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._ticket)
            os.close(self._lock)
            self._lock = None

    def _enter(self, since: float) -> None:
        ticket = f"{self._queue}/{int(since * 1e6):020d}.{self._object}"
        if self._lock is not None and ticket == self._ticket and os.path.exists(ticket):
            return
        self.leave()
        os.makedirs(self._queue, exist_ok=True)
        os.makedirs(self._slots, exist_ok=True)
        # Locked before others see it: they take an unlocked ticket for that of a dead shim.
        temporary = f"{self._queue}/{layout.TEMPORARY}{self._object}.{os.urandom(8).hex()}"
        self._lock = proc.lock(temporary)
        os.rename(temporary, ticket)
        self._ticket = ticket

    def _first(self) -> bool:
        for ticket in tickets(self._queue):
            path = f"{self._queue}/{ticket}"
            if path == self._ticket:
                return True
            try:
                if proc.is_locked(path):
                    return False
                os.unlink(path)
            except FileNotFoundError:
                continue
        return False


def tickets(queue: str) -> list[str]:
    """The names of all tickets, first in line first; those of the dead may be among them."""
    return sorted(name for name in os.listdir(queue) if not name.startswith(layout.TEMPORARY))


def _take(folder: str, cpus: int, *, slots: int) -> list[int]:
    taken: list[int] = []
    for number in range(slots):
        if len(taken) == cpus:
            break
        lock = proc.lock(f"{folder}/{number}")
        if lock is not None:
            taken.append(lock)
    if len(taken) == cpus:
        return taken
    for lock in taken:
        os.close(lock)
    return []
