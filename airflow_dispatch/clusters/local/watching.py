"""What wakes a watch: a stamp of everything about a task that a Find could show differently.

A stamp is compared and never read: the names in the folders of the task's objects (files there only
ever appear), and whether their locks are held, so that a shim killed without a word wakes too.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

from airflow_dispatch import limits
from airflow_dispatch.clusters.local import entries, gate, layout, proc
from airflow_dispatch.errors import ClusterUnavailable

Stamp = tuple[object, ...]


def stamp(root: str, task_digest: str) -> Stamp:
    """The stamp of a task; what cannot be looked at has one too."""
    try:
        objects = entries.names(root, task_digest)
        return (
            Path(root, layout.MARKER).exists(),
            *(_of(root, task_digest, o) for o in objects),
        )
    except (OSError, ClusterUnavailable) as error:
        return (str(error),)


def _of(root: str, task_digest: str, object: str) -> Stamp:
    folder = f"{layout.spool(root, task_digest)}/{object}"
    held = [proc.is_locked(f"{folder}/{name}") for name in (layout.LOCK, layout.ALIVE)]
    there = _names(folder)
    if not any(held):
        return (object, there)
    return (object, there, tuple(held), _gate_names(root, task_digest, object))


def _gate_names(root: str, task_digest: str, object: str) -> tuple[str, ...]:
    entry = entries.read(root, task_digest, object)
    if entry is None:
        return ()
    try:
        return _names(entries.gate_folder(root, entry.mark))
    except OSError:
        return ()


def _names(folder: str) -> tuple[str, ...]:
    names = (path.name for path in Path(folder).iterdir())
    return tuple(sorted(name for name in names if not name.startswith(gate.TEMPORARY)))


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
