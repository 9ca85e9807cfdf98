"""What a shim does from its birth to its end.

It reads what it is to be (`spec`), lands its object (`landing`), answers, waits at the gate
(`waiting`), runs the command (`payload`), records how that ended (`gate`), and ends last of all,
when nothing of the run is left. Its lock on the entry is what says that it lives: while a record
cannot be written it keeps the lock and tries again, so that an end on a full disk is late and not
lost. Everything is imported at the start: an upgrade of the package cannot change a shim that waits
or runs.
"""
# ruff: noqa: PTH112 - a shim starts faster without pathlib

from __future__ import annotations

import contextlib
import os
import signal

from airflow_dispatch.clusters.local import gate, landing, layout, payload
from airflow_dispatch.clusters.local import spec as message
from airflow_dispatch.clusters.local.ear import Ear, Stop
from airflow_dispatch.clusters.local.landing import Landed
from airflow_dispatch.clusters.local.spec import Answer, Spec
from airflow_dispatch.clusters.local.waiting import at_the_gate

_RECORD_PAUSE_SECONDS_MAX = 10.0


def live(told: bytes) -> None:
    """One life. Whoever started us may be gone by any line of it."""
    spec = message.decode(told)
    if spec is None:
        return
    os.umask(0o077)
    os.chdir("/")
    Ear.block()
    landed = landing.land(spec)
    if isinstance(landed, Answer):
        _answer(landed)
        return
    payload.adopt_orphans()
    ear = Ear(spec, landed.entry)
    _answer(Answer())
    _detach(landed)
    leave = at_the_gate(spec, landed, ear)
    if isinstance(leave, Stop):
        ending = payload.record(gate.STOPPED, leave.reason)
    else:
        ending = payload.run(spec, landed, ear, slots=leave.slots)
    _file(spec, landed, ending, ear)
    while payload.signal_all(spec, signal.SIGKILL):
        ear.pause()
    with contextlib.suppress(OSError):
        gate.place(landed.entry, layout.DONE, "nothing is left\n")


def _answer(answer: Answer) -> None:
    with contextlib.suppress(BrokenPipeError):
        os.write(1, message.encode_answer(answer))


def _detach(landed: Landed) -> None:
    """Let go of whoever started us; from now on only the log hears what goes wrong here."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)
    with contextlib.suppress(OSError):  # The log may have been removed, and that is all.
        log = os.open(f"{landed.entry}/{layout.LOG}", os.O_WRONLY | os.O_APPEND)
        os.dup2(log, 2)
        os.close(log)


def _file(spec: Spec, landed: Landed, ending: gate.Exit, ear: Ear) -> None:
    """Put the exit record down, however long that takes: in the entry if the gate was removed.

    Given up only where a root that is the right one has neither any more.
    """
    name, text = gate.exit_name(spec.object, ending.start_count), gate.exit_text(ending)
    pause, folders = 0.1, [landed.gate, landed.entry]
    while folders:
        try:
            gate.place(folders[0], name, text, durable=True)
            return
        except OSError:
            removed = not os.path.isdir(folders[0])
            if removed and not landing.wrong_root(spec.root, spec.uuid):
                folders.pop(0)
                continue
        ear.pause(pause)
        pause = min(2 * pause, _RECORD_PAUSE_SECONDS_MAX)
