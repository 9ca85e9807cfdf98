"""Reading one object of the queue: its entry, its locks, its gate, its processes, in that order.

Locks are looked at before records, because a shim files how its run ended before it lets go of its
lock: a lock found free and no record read after that means that there is none. A lock that is held
counts whatever else is said: of another boot it can only be held on a shared disk. [evidence-only]
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from airflow_dispatch.clusters.local import gate, layout, proc, verdicts
from airflow_dispatch.clusters.local.slots import tickets
from airflow_dispatch.clusters.local.waiting import COUNT
from airflow_dispatch.core.commits import Sight
from airflow_dispatch.core.identity import Mark
from airflow_dispatch.core.record import Phase
from airflow_dispatch.errors import ClusterUnavailable


@dataclass(frozen=True, slots=True)
class Entry:
    """What a shim wrote when it landed. Nothing of it ever changes."""

    folder: str
    mark: Mark
    host: str
    boot: str
    pid: int
    start: int
    cpus: int
    made_at: datetime

    @property
    def object(self) -> str:
        """The object's id: its tag."""
        return self.mark.tag


@dataclass(frozen=True, slots=True)
class Here:
    """What locks and processes can be judged from: one host, one boot of it."""

    host: str
    boot: str

    @staticmethod
    def now() -> Here:
        """This host, now."""
        return Here(os.uname().nodename, proc.boot_id())


def names(root: str, task_digest: str) -> list[str]:
    """The objects of a task."""
    try:
        found = [path.name for path in Path(layout.spool(root, task_digest)).iterdir()]
    except FileNotFoundError:
        return []
    return sorted(name for name in found if layout.is_object(name))


def read(root: str, task_digest: str, object: str) -> Entry | None:
    """The entry; None if there is none. What is there and cannot be read is no absence."""
    folder = f"{layout.spool(root, task_digest)}/{object}"
    try:
        told = json.loads(gate.read_small(f"{folder}/{layout.ENTRY}"))
        mark = Mark(**told["mark"])
        if (mark.task_digest, mark.tag) != (task_digest, object):
            raise ValueError("it is another object's")
        return Entry(
            folder=folder,
            mark=mark,
            host=told["host"],
            boot=told["boot"],
            pid=int(told["pid"]),
            start=int(told["start"]),
            cpus=int(told["cpus"]),
            made_at=verdicts.moment(told["made_at"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, FileNotFoundError) and not Path(folder).exists():
            return None
        raise ClusterUnavailable(
            f"the entry {folder} cannot be read ({error}); what runs there goes on"
        ) from error


def gate_folder(root: str, mark: Mark) -> str:
    """Where the permits of the object's submission are."""
    return f"{submission_folder(root, mark)}/{layout.GATE}"


def submission_folder(root: str, mark: Mark) -> str:
    """Where the run's files are."""
    run = layout.run_folder(root, mark.deployment, mark.task_digest)
    return layout.submission_folder(run, mark.generation, mark.submission)


def look(root: str, entry: Entry, here: Here) -> tuple[verdicts.Evidence, bool]:
    """Everything there is to know of an object, and whether some record could not be read."""
    shim_alive = proc.is_locked(f"{entry.folder}/{layout.LOCK}")
    run_locked = proc.is_locked(f"{entry.folder}/{layout.ALIVE}")
    stop_asked = Path(entry.folder, layout.STOP).exists()
    read, unreadable = _records(root, entry)
    started = read.started(COUNT)
    left_nothing = not shim_alive and Path(entry.folder, layout.DONE).exists()
    this_boot = entry.boot == here.boot
    ran = started is not None or unreadable
    may_have_left = ran and this_boot and not (shim_alive or left_nothing)
    evidence = verdicts.Evidence(
        this_host=entry.host == here.host,
        this_boot=this_boot,
        shim_alive=shim_alive,
        run_alive=run_locked or (may_have_left and _anything_left(entry)),
        left_nothing=left_nothing,
        permitted=read.permit(COUNT) is not None,
        started=started,
        exit=read.exit(COUNT),
        stop_asked=stop_asked,
    )
    return evidence, unreadable


def _records(root: str, entry: Entry) -> tuple[gate.Gate, bool]:
    """The gate's records, and whether some cannot be read.

    A run may remove its own folder, and the gate with it. What its shim keeps in the entry then
    tells that it started, and how it ended.
    """
    try:
        read = gate.read(gate_folder(root, entry.mark), entry.object)
        unreadable = bool(read.unreadable)
    except OSError:
        read, unreadable = gate.Gate(), True
    if read.started(COUNT) is None:
        kept = gate.read(entry.folder, entry.object)
        read = read._replace(starts=read.starts + kept.starts, exits=read.exits + kept.exits)
        unreadable = unreadable and kept.exit(COUNT) is None
    return read, unreadable


def kept_started(entry: Entry | None, permit: int, count: int) -> bool:
    """Whether the shim keeps in its entry that it started under that permit."""
    if entry is None:
        return False
    try:
        return gate.started_there(entry.folder, gate.start_name(entry.object, permit, count))
    except FileNotFoundError:
        return False


def _anything_left(entry: Entry) -> bool:
    """Looked at twice: one look at /proc can miss a process that forks and ends meanwhile."""
    return bool(run_processes(entry) or run_processes(entry))


def run_processes(entry: Entry) -> list[proc.Process]:
    """The processes of a run whose shim is gone.

    Those with its mark, those that keep its inherited descriptor, and its session's. A session
    counts only while the process that made it is there: its number is then not reused.
    """
    found = {p.pid: p for p in proc.marked(layout.start_mark(entry.object, COUNT))}
    found.update((p.pid, p) for p in proc.holders(f"{entry.folder}/{layout.ALIVE}"))
    try:
        pid, start = map(int, gate.read_small(f"{entry.folder}/{layout.PAYLOAD}").split())
    except (OSError, ValueError):
        return list(found.values())
    leader = proc.look(pid)
    if leader is not None and leader.start == start:
        found.update((p.pid, p) for p in proc.everything() if p.session == pid)
    return list(found.values())


def sight(root: str, entry: Entry, here: Here) -> Sight:
    """The object as a Find shows it."""
    evidence, unreadable = look(root, entry, here)
    phase = verdicts.phase(evidence)
    return Sight(
        id=entry.object,
        mark=entry.mark,
        phase=phase,
        incarnations=(verdicts.incarnation(evidence, COUNT),),
        note=_note(root, entry, evidence, phase),
        unreadable=unreadable,
    )


def _note(root: str, entry: Entry, evidence: verdicts.Evidence, phase: Phase) -> str:
    if not evidence.this_host:
        return f"it belongs to the host {entry.host}"
    match phase:
        case Phase.GATED:
            return f"its shim (process {entry.pid}) waits at its gate"
        case Phase.QUEUED:
            return _place_in_line(root, entry)
        case Phase.RUNNING if evidence.shim_lives:
            return f"its shim is process {entry.pid}"
        case Phase.RUNNING:
            return f"its shim (process {entry.pid}) is gone, and processes of the run are left"
        case Phase.STOPPING:
            return f"its shim (process {entry.pid}) is ending it"
        case Phase.ENDED:
            return ""


def _place_in_line(root: str, entry: Entry) -> str:
    try:
        line = tickets(f"{root}/{layout.SPOOL}/{layout.QUEUE}")
    except OSError:
        line = []
    ahead = next((i for i, name in enumerate(line) if name.endswith(f".{entry.object}")), None)
    wanted = f"waits for {entry.cpus} {'cpu' if entry.cpus == 1 else 'cpus'}"
    return wanted if ahead is None else f"{wanted}, {ahead} ahead of it"
