"""What a shim listens to while it waits: requests to stop, and the passing of time.

A stop comes as a file in the shim's entry (first one wins), as SIGTERM from a person or a host that
goes down, or as the loss of the entry itself: what the queue does not show any more could never be
found or stopped again, so it must not go on. [nothing-forgotten]
"""
# ruff: noqa: PTH110 - a shim starts faster without pathlib

from __future__ import annotations

import json
import os
import signal
import time
from typing import NamedTuple

from airflow_dispatch.clusters.local import gate, layout
from airflow_dispatch.clusters.local.landing import wrong_root
from airflow_dispatch.clusters.local.spec import Spec

POLL_SECONDS = 0.1
ENTRY_CHECK_SECONDS = 1.0


class Stop(NamedTuple):
    """A request to end."""

    grace: float
    reason: str
    kill_at: float = 0.0
    """By the wall clock, for those who end a run in place of its shim."""


def now() -> float:
    """Seconds since the boot, time asleep included: what limits and graces are counted in."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Ear:
    """Hears for one shim. Made before anything may be missed: from then on SIGTERM only asks."""

    def __init__(self, spec: Spec, entry: str) -> None:
        self._spec = spec
        self._entry = entry
        self._stop: Stop | None = None
        self._entry_seen = now()

    @staticmethod
    def block() -> None:
        """Let signals wait until `pause` takes them."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})

    @staticmethod
    def unblock() -> None:
        """Give a child back the signals that a process expects to find.

        Some were ignored by Python, some here, some by whatever started the supervisor: a shell has
        what it starts in the background ignore the keyboard's.
        """
        for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())

    def pause(self, seconds: float = POLL_SECONDS) -> None:
        """Wait; a child's end cuts it short."""
        heard = signal.sigtimedwait({signal.SIGCHLD, signal.SIGTERM}, seconds)
        if heard is not None and heard.si_signo == signal.SIGTERM and self._stop is None:
            self._stop = Stop(self._spec.grace, "its shim was asked to end by SIGTERM")

    def stop(self) -> Stop | None:
        """The request, once there is one; it is never taken back."""
        if self._stop is None:
            self._stop = self._asked()
        return self._stop

    def _asked(self) -> Stop | None:
        path = f"{self._entry}/{layout.STOP}"
        if os.path.exists(path):
            return read_stop(path)
        if now() - self._entry_seen >= ENTRY_CHECK_SECONDS:
            self._entry_seen = now()
            gone = not os.path.exists(self._entry)
            if gone and not wrong_root(self._spec.root, self._spec.uuid):
                return Stop(self._spec.grace, "its entry was removed from the spool")
        return None


def stop_text(*, grace: float, reason: str, at: float) -> str:
    """Content of a stop request."""
    return json.dumps({"grace": grace, "reason": reason, "at": at}) + "\n"


def read_stop(path: str) -> Stop:
    """A stop request; one that cannot be read still asks to stop, at once."""
    try:
        told = json.loads(gate.read_small(path))
        grace = float(told["grace"])
        return Stop(grace, str(told["reason"]), float(told["at"]) + grace)
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Stop(0.0, f"a stop request that cannot be read ({error})")
