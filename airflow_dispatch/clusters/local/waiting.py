"""Behind the gate: from the birth of an object to the one moment at which it may start.

An object starts only if a permit covers this very start, was seen no later than the bound of a call
after its deadline, cpus are free, and its `start` record is the first of that name. Whoever
withdraws places the same name; the file system decides once, for ever. [authorized-only]
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import NamedTuple

from airflow_dispatch import limits
from airflow_dispatch.clusters.local import gate
from airflow_dispatch.clusters.local.ear import Ear, Stop
from airflow_dispatch.clusters.local.landing import Landed
from airflow_dispatch.clusters.local.slots import Line
from airflow_dispatch.clusters.local.spec import Spec

COUNT = 0
"""The start count. This cluster starts an object once; another start is another object."""


class Leave(NamedTuple):
    """The object may start now, on these slots."""

    slots: list[int]


def at_the_gate(spec: Spec, landed: Landed, ear: Ear) -> Leave | Stop:
    """Wait for leave to start, or for the request to stop."""
    line = Line(spec.root, spec.object)
    claim = Claim(spec, landed)
    while True:
        stop = ear.stop()
        if stop is not None:
            line.leave()
            return stop
        slots = _try(spec, claim, line)
        if slots:
            line.leave()
            return Leave(slots)
        ear.pause()


def _try(spec: Spec, claim: Claim, line: Line) -> list[int]:
    """The slots to start on, if everything allows it now.

    A disk that is full or not there now keeps the gate shut, and is asked again.
    """
    slots: list[int] = []
    won = False
    try:
        permit = claim.permit()
        if permit is None:
            line.leave()
        else:
            slots = line.take(spec.cpus, slots=spec.slots, since=permit.at)
            won = bool(slots) and claim.win(permit)
    except OSError:
        won = False
    if won:
        return slots
    for slot in slots:
        os.close(slot)
    return []


class Claim:
    """This shim's side of the register."""

    def __init__(self, spec: Spec, landed: Landed) -> None:
        self._object = spec.object
        self._gate = landed.gate
        self._entry = landed.entry
        self._seen: set[tuple[int, int]] = set()

    def permit(self) -> gate.Permit | None:
        """The permit that counts now. One that was seen too late is refused on record."""
        while True:
            permit = gate.read(self._gate, self._object).permit(COUNT)
            if permit is None:
                return None
            seen, now = (permit.number, permit.call), time.time()
            if seen in self._seen or now <= permit.deadline + limits.LOCAL_CALL_BOUND_SECONDS:
                self._seen.add(seen)
                return permit
            name = gate.refused_name(self._object, COUNT, os.urandom(8).hex())
            gate.place(self._gate, name, gate.refused_text(permit, at=now))

    def win(self, permit: gate.Permit) -> bool:
        """Whether this start is ours: the first of its name, whole, and safe from a power cut."""
        name = gate.start_name(self._object, permit.number, COUNT)
        host, token = os.uname().nodename, os.urandom(8).hex()
        text = gate.started_text(token=token, host=host, pid=os.getpid(), at=time.time())
        try:
            won = gate.place(self._gate, name, text, durable=True)
        except OSError:
            # It may be there all the same; then the start is decided, and by us.
            won = gate.read_small(f"{self._gate}/{name}") == text
            if not won:
                raise
        if won:  # A run may remove its own folder, gate and all: that it started stays known.
            with contextlib.suppress(OSError):
                gate.place(self._entry, name, text)
        return won
