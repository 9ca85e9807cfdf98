"""The calls that change something: start, open, stop, withdraw. Each is for one identity.

An order is carried out only in the run root and on the host that its fingerprint names, and for the
entry that bears the very mark of the order; otherwise it does nothing and says so. Nothing here
waits for an effect: a call asks, a Find shows. [authorized-only]
"""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path

from airflow_dispatch import limits
from airflow_dispatch.clusters.local import entries, gate, layout, proc, starting
from airflow_dispatch.clusters.local import root as roots
from airflow_dispatch.clusters.local.ear import read_stop, stop_text
from airflow_dispatch.clusters.local.entries import Entry, Here
from airflow_dispatch.clusters.local.root import Root
from airflow_dispatch.clusters.local.waiting import COUNT
from airflow_dispatch.core.identity import JobKey, Mark, ObjectId
from airflow_dispatch.core.record import Created, Decided, Done, Refused, Unclear
from airflow_dispatch.errors import ClusterMismatch, ensure
from airflow_dispatch.ports.cluster import (
    OpenOrder,
    StartOrder,
    StopJobOrder,
    StopOrder,
    WithdrawOrder,
)


def verified(path: str, fingerprint: str) -> Root:
    """The root that the order is meant for; raises `ClusterMismatch` where it is another."""
    root = roots.read(path)
    if root.fingerprint != fingerprint:
        raise ClusterMismatch(
            f"the order is for {fingerprint}, and {path} on this host is {root.fingerprint}; "
            "nothing was done"
        )
    return root


def same(key: JobKey, object: ObjectId, mark: Mark) -> Mark:
    """The mark, checked against the other names of the same thing."""
    ensure(mark.belongs_to(key) and mark.tag == object, f"{object} of {key} does not bear {mark}")
    return mark


# --- start ----------------------------------------------------------------------------------------


def start(root: Root, order: StartOrder, *, slots: int) -> Created | Refused | Unclear:
    """Have a shim land the object behind its gate."""
    mark = same(order.key, order.mark.tag, order.mark)
    if not layout.is_object(mark.tag):
        return Refused(f"the tag {mark.tag!r} cannot name a folder", permanent=True)
    too_long = starting.too_long(order.job)
    if too_long:
        return Refused(too_long, permanent=True)
    spec = starting.spec_of(order, root=root.path, uuid=root.uuid, slots=slots)
    answer = starting.start(spec)
    if isinstance(answer, Unclear):
        return answer
    if answer.refusal:
        return Refused(answer.refusal, answer.permanent)
    # The shim read its gate back before it landed. By now another supervisor may have opened it.
    return Created(mark.tag)


# --- open -----------------------------------------------------------------------------------------


def open_gate(root: Root, order: OpenOrder) -> Done | Refused | Unclear:
    """Place a permit, checked against identity and clock right before it is there."""
    mark = same(order.key, order.object, order.mark)
    entry = _entry(root, mark)
    if isinstance(entry, Refused):
        return entry
    folder, permit = entries.gate_folder(root.path, mark), order.permit
    if entries.kept_started(entry, permit.number, COUNT):
        return Done()
    try:
        read = gate.read(folder, mark.tag)
    except FileNotFoundError:
        return Refused(f"the run folder of {mark.tag} is gone; it cannot start", permanent=True)
    decided = next(
        (s for s in read.starts if s.permit == permit.number and s.start_count == COUNT), None
    )
    if decided is not None and decided.started:
        return Done()
    if decided is not None:
        return Refused(f"permit {permit.number} of {mark.tag} was withdrawn", permanent=True)
    if not proc.is_locked(f"{entry.folder}/{layout.LOCK}"):
        return Refused(f"{mark.tag} has ended; it cannot start any more", permanent=True)
    deadline = order.deadline.timestamp()
    name = gate.permit_name(mark.tag, permit.number, order.call)
    text = gate.permit_text(first=permit.first, last=permit.last, deadline=deadline, at=time.time())
    try:
        gate.place(folder, name, text, durable=True, not_after=deadline)
    except gate.Late:
        return Refused("the call's deadline had passed; the gate stays shut", permanent=False)
    except OSError as error:
        if Path(folder, name).exists():
            return Done()
        return Refused(
            f"no permit could be written ({error}); the gate stays shut", permanent=False
        )
    return Done()


def _entry(root: Root, mark: Mark) -> Entry | Refused:
    entry = entries.read(root.path, mark.task_digest, mark.tag)
    if entry is None:
        return Refused(f"there is no object {mark.tag} in {root.path}", permanent=True)
    if entry.mark != mark:
        return Refused(f"{mark.tag} bears another mark; nothing was done", permanent=True)
    return entry


# --- stop -----------------------------------------------------------------------------------------


def stop(root: Root, order: StopOrder) -> Done | Refused | Unclear:
    """Ask one object to end."""
    entry = _entry(root, same(order.key, order.object, order.mark))
    if isinstance(entry, Refused):
        return entry
    _stop(root, entry, grace=order.grace_seconds, reason=order.reason)
    return Done()


def stop_job(root: Root, order: StopJobOrder) -> Done | Refused | Unclear:
    """Ask every object to end that bears the record's mark, whatever attempt it is of."""
    digest = order.key.task.digest
    for name in entries.names(root.path, digest):
        entry = entries.read(root.path, digest, name)
        if entry is not None and entry.mark.belongs_to(order.key):
            _stop(root, entry, grace=order.grace_seconds, reason=order.reason)
    return Done()


def _stop(root: Root, entry: Entry, *, grace: int, reason: str) -> None:
    evidence, _ = entries.look(root.path, entry, Here.now())
    if not (evidence.shim_lives or evidence.run_lives):
        return
    text = stop_text(grace=grace, reason=reason[: limits.REASON_CHARS_MAX], at=time.time())
    try:
        gate.place(entry.folder, layout.STOP, text)
        placed = True
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        placed = False
    if not evidence.this_host:
        return  # Its own host's shim finds the request, if that host shares the folder.
    if evidence.shim_lives:
        if not placed:  # A full disk takes no request; the shim takes this signal for one.
            _signal_shim(entry)
    else:
        _end_leftovers(entry)


def _signal_shim(entry: Entry) -> None:
    shim = proc.look(entry.pid)
    if shim is not None and shim.start == entry.start:
        proc.send(shim, signal.SIGTERM)


def _end_leftovers(entry: Entry) -> None:
    """End what a dead shim left: warn once, kill once the grace is over. Repeated stops do both."""
    path = f"{entry.folder}/{layout.STOP}"
    over = not Path(path).exists() or time.time() >= read_stop(path).kill_at
    try:
        first = gate.place(entry.folder, layout.WARNED, "warned\n" + os.urandom(8).hex())
    except OSError:
        first = False
    for process in entries.run_processes(entry):
        if over:
            proc.send(process, signal.SIGKILL)
        elif first:
            proc.send(process, signal.SIGTERM)


# --- withdraw -------------------------------------------------------------------------------------


def withdraw(root: Root, order: WithdrawOrder) -> Decided | Refused | Unclear:
    """Place the register of each start, or read who did.

    A run folder that is missing below the right root has no permit and takes none: withdrawn,
    unless the object's entry tells that it started and must have removed the folder itself.
    """
    mark, permit = same(order.key, order.object, order.mark), order.permit
    counts = range(permit.first, permit.last + 1)
    ensure(len(counts) <= limits.PERMIT_STARTS_MAX, f"a permit for {len(counts)} starts")
    folder = entries.gate_folder(root.path, mark)
    host, token = os.uname().nodename, os.urandom(8).hex()

    def kept(count: int) -> bool:
        entry = entries.read(root.path, mark.task_digest, mark.tag)
        return entries.kept_started(entry, permit.number, count)

    starts: list[tuple[int, bool]] = []
    try:
        for count in counts:
            name = gate.start_name(mark.tag, permit.number, count)
            text = gate.withdrawn_text(token=token, host=host, at=time.time())
            ours = gate.place(folder, name, text, durable=True)
            starts.append((count, kept(count) if ours else gate.started_there(folder, name)))
    except FileNotFoundError:
        roots_again = roots.read(root.path)
        if roots_again != root or Path(folder).is_dir():
            return Unclear(f"the gate {folder} came or went while it was decided")
        return Decided(tuple((count, kept(count)) for count in counts))
    except (OSError, ValueError) as error:
        return Unclear(f"the gate {folder} could not be decided ({error})")
    return Decided(tuple(starts))
