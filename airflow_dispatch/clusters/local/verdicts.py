"""From what is there to what it means: the table of the local cluster. Pure.

`Evidence` is what was read of one object, locks first and records after them, so that an end that
was recorded while we looked is seen. Success comes from an exit record and from nothing else; a
shim that is gone without one makes `node_lost`. What no row knows is `unknown`. [evidence-only]
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from airflow_dispatch import limits
from airflow_dispatch.clusters.local import gate
from airflow_dispatch.core.causes import Cause, CauseKind
from airflow_dispatch.core.record import Incarnation, Phase, Source, Verdict


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was read of one object."""

    this_host: bool
    """Its shim was started on this host: only then do locks and processes say anything."""
    this_boot: bool
    shim_alive: bool
    """Its lock is held."""
    run_alive: bool
    """The inherited lock is held, or a process of the run is there."""
    left_nothing: bool
    """Its shim said so as the last thing it did."""
    permitted: bool
    """A permit that counts waits to be used."""
    started: gate.Start | None
    exit: gate.Exit | None
    stop_asked: bool

    @property
    def shim_lives(self) -> bool:
        """Whether the shim must be taken for alive. Of another host only records speak."""
        if self.this_host:
            return self.shim_alive
        return self.exit is None and not self.left_nothing

    @property
    def run_lives(self) -> bool:
        """Whether anything of the run must be taken for alive."""
        return self.run_alive if self.this_host else not self.left_nothing


def phase(evidence: Evidence) -> Phase:
    """Where the object stands.

    STOPPING says that somebody sees to its end. Where the shim is gone and its run lives on, nobody
    does: that is RUNNING, so that stops are carried out again and again.
    """
    if not evidence.shim_lives:
        return Phase.RUNNING if evidence.run_lives else Phase.ENDED
    if evidence.stop_asked or evidence.exit is not None:
        return Phase.STOPPING
    if evidence.started is not None:
        return Phase.RUNNING
    return Phase.QUEUED if evidence.permitted else Phase.GATED


def incarnation(evidence: Evidence, count: int) -> Incarnation:
    """The facts about the object's start."""
    started = evidence.started
    began = None if evidence.exit is None else evidence.exit.began
    host = started.host if started is not None else ""
    at = started.at if started is not None else began
    return Incarnation(
        start_count=count,
        started=started is not None or began is not None,
        started_at=None if at is None else moment(at),
        host=host,
        verdict=_verdict(evidence),
        idle=not evidence.shim_lives and not evidence.run_lives,
    )


def moment(seconds: float) -> datetime:
    """A time of the host's clock."""
    return datetime.fromtimestamp(seconds, timezone.utc)


def _verdict(evidence: Evidence) -> Verdict | None:
    if evidence.exit is not None:
        return Verdict(Source.EXIT_RECORD, cause(evidence.exit), moment(evidence.exit.ended))
    if evidence.shim_lives:
        return None
    detail = (
        "its shim ended without recording how the run did"
        if evidence.this_boot
        else "the host was restarted while it was there"
    )
    return Verdict(Source.SCHEDULER, Cause(CauseKind.NODE_LOST, detail=detail))


def cause(exit: gate.Exit) -> Cause | None:
    """Why it did not succeed; None for success."""
    detail = exit.detail[: limits.DETAIL_CHARS_MAX]
    match exit:
        case gate.Exit(reason=gate.BY_ITSELF, code=0, signal=None):
            return None
        case gate.Exit(reason=gate.BY_ITSELF | gate.NOT_STARTED, code=int(code), signal=None) if (
            code != 0
        ):
            return Cause(CauseKind.EXIT, code, detail)
        case gate.Exit(reason=gate.BY_ITSELF, code=None, signal=int(signal)):
            return Cause(CauseKind.SIGNAL, signal, detail)
        case gate.Exit(reason=gate.STOPPED):
            return Cause(CauseKind.CANCELLED_OUTSIDE, detail=detail)
        case gate.Exit(reason=gate.TIME_LIMIT):
            return Cause(CauseKind.TIME_LIMIT, detail=detail)
        case gate.Exit(reason=gate.OUT_OF_MEMORY):
            return Cause(CauseKind.OUT_OF_MEMORY, detail=detail)
        case gate.Exit(reason=gate.LAUNCH_FAILED):
            return Cause(CauseKind.LAUNCH_FAILED, detail=detail)
        case _:
            said = f"an exit record says {exit.reason!r}, code {exit.code}, signal {exit.signal}"
            return Cause(CauseKind.UNKNOWN, detail=said[: limits.DETAIL_CHARS_MAX])
