"""The local cluster's table from evidence to meaning, row by row, and what holds of every row."""

import itertools
from dataclasses import replace

import pytest

from airflow_dispatch.clusters.local import gate, verdicts
from airflow_dispatch.clusters.local.verdicts import Evidence
from airflow_dispatch.core.causes import CauseKind
from airflow_dispatch.core.record import Phase, Source

ENDED_WELL = gate.Exit(0, gate.BY_ITSELF, "", 0, None, "host", "boot", 10.0, 20.0, 1 << 20)
STARTED = gate.Start(1, 0, True, 9.0, "host")
GATED = Evidence(
    this_host=True,
    this_boot=True,
    shim_alive=True,
    run_alive=True,
    left_nothing=False,
    permitted=False,
    started=None,
    exit=None,
    stop_asked=False,
)
RUNNING = replace(GATED, started=STARTED)
ENDED = replace(RUNNING, shim_alive=False, run_alive=False, left_nothing=True, exit=ENDED_WELL)


@pytest.mark.parametrize(
    ("reason", "code", "signal", "kind", "number"),
    [
        (gate.BY_ITSELF, 0, None, None, None),
        (gate.BY_ITSELF, 1, None, CauseKind.EXIT, 1),
        (gate.BY_ITSELF, 255, None, CauseKind.EXIT, 255),
        (gate.BY_ITSELF, None, 9, CauseKind.SIGNAL, 9),
        (gate.NOT_STARTED, 127, None, CauseKind.EXIT, 127),
        (gate.STOPPED, 0, None, CauseKind.CANCELLED_OUTSIDE, None),
        (gate.STOPPED, None, 15, CauseKind.CANCELLED_OUTSIDE, None),
        (gate.STOPPED, None, None, CauseKind.CANCELLED_OUTSIDE, None),
        (gate.TIME_LIMIT, 0, None, CauseKind.TIME_LIMIT, None),
        (gate.TIME_LIMIT, None, 9, CauseKind.TIME_LIMIT, None),
        (gate.OUT_OF_MEMORY, None, 9, CauseKind.OUT_OF_MEMORY, None),
        (gate.LAUNCH_FAILED, None, None, CauseKind.LAUNCH_FAILED, None),
        # What makes no sense, or comes from a later version, is never success.
        (gate.BY_ITSELF, None, None, CauseKind.UNKNOWN, None),
        (gate.BY_ITSELF, 0, 9, CauseKind.UNKNOWN, None),
        (gate.NOT_STARTED, 0, None, CauseKind.UNKNOWN, None),
        ("eaten_by_a_bear", 0, None, CauseKind.UNKNOWN, None),
        ("", 0, None, CauseKind.UNKNOWN, None),
    ],
)
def test_each_end_has_its_cause(
    reason: str, code: int | None, signal: int | None, kind: CauseKind | None, number: int | None
) -> None:
    """An exit record means one cause; success is exit 0 of a command that ended by itself."""
    end = ENDED_WELL._replace(reason=reason, code=code, signal=signal, detail="why")
    found = verdicts.cause(end)
    assert (None if found is None else found.kind) == kind
    assert (None if found is None else found.number) == number
    assert found is None or found.detail


@pytest.mark.parametrize(
    ("evidence", "phase"),
    [
        (GATED, Phase.GATED),
        (replace(GATED, permitted=True), Phase.QUEUED),
        (replace(GATED, stop_asked=True), Phase.STOPPING),
        (replace(GATED, permitted=True, stop_asked=True), Phase.STOPPING),
        (RUNNING, Phase.RUNNING),
        (replace(RUNNING, permitted=True), Phase.RUNNING),
        (replace(RUNNING, stop_asked=True), Phase.STOPPING),
        (replace(RUNNING, exit=ENDED_WELL), Phase.STOPPING),
        (ENDED, Phase.ENDED),
        (replace(ENDED, stop_asked=True), Phase.ENDED),
        # The shim is gone without a record, and the run with it, or not.
        (replace(GATED, shim_alive=False, run_alive=False), Phase.ENDED),
        (replace(RUNNING, shim_alive=False, run_alive=False), Phase.ENDED),
        (replace(RUNNING, shim_alive=False), Phase.RUNNING),
        (replace(RUNNING, shim_alive=False, stop_asked=True), Phase.RUNNING),
        (replace(RUNNING, shim_alive=False, exit=ENDED_WELL), Phase.RUNNING),
        # An earlier boot: only a lock that is held says otherwise.
        (replace(RUNNING, this_boot=False, shim_alive=False, run_alive=False), Phase.ENDED),
        (replace(RUNNING, this_boot=False), Phase.RUNNING),
        # Another host: what its records do not say to be over is not over.
        (replace(GATED, this_host=False, shim_alive=False, run_alive=False), Phase.GATED),
        (replace(RUNNING, this_host=False, shim_alive=False, run_alive=False), Phase.RUNNING),
        (replace(ENDED, this_host=False), Phase.ENDED),
        (replace(ENDED, this_host=False, left_nothing=False), Phase.RUNNING),
    ],
)
def test_each_evidence_has_its_phase(evidence: Evidence, phase: Phase) -> None:
    """Where an object stands follows from locks, records and requests."""
    assert verdicts.phase(evidence) is phase


def every_evidence() -> list[Evidence]:
    """All combinations."""
    flags = itertools.product([True, False], repeat=7)
    starts = [None, STARTED]
    ends = [None, ENDED_WELL, ENDED_WELL._replace(code=1), ENDED_WELL._replace(began=None)]
    return [
        Evidence(
            this_host=host,
            this_boot=boot,
            shim_alive=shim,
            run_alive=run,
            left_nothing=nothing,
            permitted=permitted,
            started=started,
            exit=end,
            stop_asked=stop,
        )
        for host, boot, shim, run, nothing, permitted, stop in flags
        for started in starts
        for end in ends
    ]


def test_of_every_evidence_the_promises_hold() -> None:
    """Success needs an exit record; idle means ended, with a verdict; who stops, lives."""
    seen = set()
    for evidence in every_evidence():
        phase, start = verdicts.phase(evidence), verdicts.incarnation(evidence, 0)
        verdict = start.verdict
        seen.add(phase)
        assert (phase is Phase.ENDED) == start.idle
        if start.idle:
            assert verdict is not None
        if verdict is not None and verdict.succeeded:
            assert evidence.exit == ENDED_WELL or evidence.exit == ENDED_WELL._replace(began=None)
            assert verdict.source is Source.EXIT_RECORD
        if verdict is not None and verdict.source is Source.SCHEDULER:
            assert verdict.cause is not None
            assert verdict.cause.kind is CauseKind.NODE_LOST
            assert evidence.left_nothing or evidence.this_host
            assert not (evidence.this_host and evidence.shim_alive)
        if phase is Phase.STOPPING:
            assert evidence.shim_lives
        if evidence.this_host and (evidence.shim_alive or evidence.run_alive):
            assert not start.idle
    assert seen == set(Phase)


def test_a_start_is_told_by_its_register() -> None:
    """Time and host of a start are those of the record that decided it."""
    start = verdicts.incarnation(ENDED, 0)
    assert (start.started, start.host) == (True, "host")
    assert start.started_at == verdicts.moment(9.0)
    assert start.verdict is not None
    assert start.verdict.ended_at == verdicts.moment(20.0)
    assert not verdicts.incarnation(GATED, 0).started
