"""What wakes a watch: a stamp of everything about a task that a Find could show differently.

A stamp is compared and never read: how many files the folders of the task's objects hold (files
there only ever appear), and whether their locks are held, so that a shim killed without a word
wakes too. It is taken many times a second for every job that is watched: it is cheap.
"""
# ruff: noqa: PTH110, PTH208 - pathlib takes twice the time here

from __future__ import annotations

import functools
import os
from collections import OrderedDict

from airflow_dispatch import limits
from airflow_dispatch.clusters.local import entries, gate, layout, proc
from airflow_dispatch.errors import ClusterUnavailable

Stamp = tuple[object, ...]


def stamp(root: str, task_digest: str) -> Stamp:
    """The stamp of a task; what cannot be looked at has one too."""
    try:
        objects = entries.names(root, task_digest)
        return (
            os.path.exists(f"{root}/{layout.MARKER}"),
            *(_of(root, task_digest, o) for o in objects),
        )
    except (OSError, ClusterUnavailable) as error:
        return (str(error),)


def _of(root: str, task_digest: str, object: str) -> Stamp:
    folder = f"{layout.spool(root, task_digest)}/{object}"
    there = _count(folder)
    if proc.is_locked(f"{folder}/{layout.LOCK}"):
        return (object, there, "shim", _count(_gate_folder(root, task_digest, object)))
    left = proc.is_locked(f"{folder}/{layout.ALIVE}")
    return (object, there, "run" if left else "")


@functools.lru_cache(limits.LOCAL_STAMPS_MAX)
def _gate_folder(root: str, task_digest: str, object: str) -> str:
    """Nothing of an entry ever changes, nor does where its gate is."""
    entry = entries.read(root, task_digest, object)
    if entry is None:
        raise FileNotFoundError(object)
    return entries.gate_folder(root, entry.mark)


def _count(folder: str) -> int:
    """How many files there are, which only ever become more; -1 if the folder was removed.

    One that is still being written does not count: it would stand for the one that it becomes.
    """
    try:
        return sum(not name.startswith(gate.TEMPORARY) for name in os.listdir(folder))
    except FileNotFoundError:
        return -1


class Seen:
    """The stamps of the last Finds, the oldest of too many forgotten."""

    def __init__(self) -> None:
        self._stamps: OrderedDict[str, Stamp] = OrderedDict()

    def remember(self, root: str, task_digest: str) -> None:
        """To be called before a Find reads the task."""
        self._stamps[task_digest] = stamp(root, task_digest)
        self._stamps.move_to_end(task_digest)
        while len(self._stamps) > limits.LOCAL_STAMPS_MAX:
            self._stamps.popitem(last=False)

    def last(self, root: str, task_digest: str) -> Stamp:
        """What the last Find saw; of a task that was never looked for, what is there now."""
        known = self._stamps.get(task_digest)
        return stamp(root, task_digest) if known is None else known
