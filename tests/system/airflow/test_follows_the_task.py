"""What people do to a task, on a real Airflow: the run lives exactly as long as its task wants it.

[follows-the-task]

The ground truth is the account that each run writes about itself, and the process table.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.airflow import AirflowBed, until
from tests.system.airflow.conftest import Account, alive

STOPPED_WITHIN_SECONDS = 10


@pytest.fixture(scope="module")
def bed(airflow_bed: AirflowBed) -> AirflowBed:
    """The Airflow, with the DAG of these tests known and unpaused."""
    airflow_bed.unpause("one")
    return airflow_bed


def running(bed: AirflowBed, account: Account, **conf: Any) -> str:
    """Trigger a run of the DAG `one` and wait until its process runs; returns the run_id."""
    run_id = bed.trigger("one", {"account": str(account.path), "seconds": 600, **conf})
    until("the run started", lambda: account.lines("START"), seconds=90)
    until(
        "the task is deferred",
        lambda: bed.task("one", run_id, "run")["state"] == "deferred",
        seconds=30,
    )
    return run_id


def stopped(account: Account, pid: int) -> None:
    """The process is gone within the promised time."""
    until(f"process {pid} is gone", lambda: not alive(pid), seconds=STOPPED_WITHIN_SECONDS)
    assert [line[1] for line in account.lines("END")][:1] == [str(pid)]


def settled(bed: AirflowBed, run_id: str, *words: str) -> dict[str, Any]:
    """The record once it is settled, as `show` prints it."""

    def look() -> dict[str, Any] | None:
        shown: dict[str, Any] = bed.show("one", run_id, "run", *words)
        return shown if shown["settled"] else None

    return until("the record is settled", look, seconds=120)


def taken_over(bed: AirflowBed, run_id: str, before: str) -> None:
    """Another supervisor than `before` looks after the record."""

    def look() -> bool:
        owner = bed.show("one", run_id, "run")["attended"]["owner"]
        return owner not in ("", before)

    until(f"another than {before} owns the record", look, seconds=120)


def test_a_run_that_ends_well_succeeds(bed: AirflowBed, account: Account) -> None:
    """The task succeeds, its XCom holds the outcome and the result, and the record is settled."""
    run_id = bed.trigger("one", {"account": str(account.path), "seconds": 2})
    bed.ends("one", run_id, "run", "success", seconds=120)
    record = settled(bed, run_id)
    assert record["outcome"]["state"] == "succeeded"
    value = bed.xcom("one", run_id, "run")
    assert value["result"] == {"beats": pytest.approx(8, abs=4)}
    assert len(account.lines("START")) == 1
    log = bed.log("one", run_id, "run", 1)
    assert "working, beat 1" in log
    assert "is authorized" in log


def test_a_run_that_fails_fails_its_task(bed: AirflowBed, account: Account) -> None:
    """The task fails with the exit code as its cause."""
    run_id = bed.trigger("one", {"account": str(account.path), "seconds": 1, "exit": 3})
    bed.ends("one", run_id, "run", "failed", seconds=120)
    cause = settled(bed, run_id)["outcome"]["cause"]
    assert (cause["kind"], cause["number"]) == ("exit", 3)


@pytest.mark.parametrize("state", ["failed", "success"])
def test_marking_a_task_stops_its_run(bed: AirflowBed, account: Account, state: str) -> None:
    """Marked while deferred: the process ends, the receipt is complete, the record settles."""
    run_id = running(bed, account)
    bed.mark_task("one", run_id, "run", state)
    stopped(account, account.pid())
    record = settled(bed, run_id)
    assert (record["outcome"]["state"], record["receipt"]) == ("cancelled", "complete")


def test_failing_the_dag_run_stops_its_run(bed: AirflowBed, account: Account) -> None:
    """The whole DAG run marked failed does the same."""
    run_id = running(bed, account)
    bed.mark_run("one", run_id, "failed")
    stopped(account, account.pid())
    record = settled(bed, run_id)
    assert (record["outcome"]["state"], record["receipt"]) == ("cancelled", "complete")


def test_a_cleared_task_runs_again_after_the_old_run_ended(
    bed: AirflowBed, account: Account
) -> None:
    """The first run is stopped, exactly one new one starts, and only after the first has ended."""
    run_id = running(bed, account)
    first = account.pid()
    bed.clear("one", run_id, "run")
    stopped(account, first)
    until("the new run started", lambda: len(account.lines("START")) == 2, seconds=120)
    account.enough()
    bed.ends("one", run_id, "run", "success", seconds=150)
    starts, ends = account.lines("START"), account.lines("END")
    assert [line[2] for line in starts] == ["1", "2"]
    assert float(starts[1][3]) >= float(ends[0][3])
    assert settled(bed, run_id, "--generation", "1")["receipt"] == "complete"
    assert settled(bed, run_id)["outcome"]["state"] == "succeeded"


def test_a_task_marked_while_no_triggerer_lives_is_stopped_by_the_daemon(
    bed: AirflowBed, account: Account
) -> None:
    """With every triggerer dead.

    `airflow dispatch supervise` ends the run and settles the record.
    """
    run_id = running(bed, account)
    bed.kill("triggerer")
    try:
        bed.start("daemon", "dispatch", "supervise")
        bed.mark_task("one", run_id, "run", "failed")
        until("the process is gone", lambda: not alive(account.pid()), seconds=60)
        record = settled(bed, run_id)
        assert (record["outcome"]["state"], record["receipt"]) == ("cancelled", "complete")
    finally:
        if "daemon" in bed.processes:
            bed.kill("daemon")
        bed.start("triggerer")


def test_the_triggerer_killed_twice_changes_nothing(bed: AirflowBed, account: Account) -> None:
    """Kill -9 of the triggerer, twice: one object, one run, success, and the log tells of it."""
    run_id = running(bed, account, seconds=900)
    pid = account.pid()
    for _ in range(2):
        owner = bed.show("one", run_id, "run")["attended"]["owner"]
        bed.kill("triggerer")
        bed.start("triggerer")
        assert alive(pid)
        taken_over(bed, run_id, owner)
    account.enough()
    bed.ends("one", run_id, "run", "success", seconds=180)
    record = settled(bed, run_id)
    assert len(record["objects"]) == 1
    assert [line[1] for line in account.lines("START")] == [str(pid)]
    assert record["outcome"]["state"] == "succeeded"
    assert "Took over" in bed.log("one", run_id, "run", 1)


def test_the_command_line_cancels(bed: AirflowBed, account: Account) -> None:
    """`airflow dispatch cancel` stops the run and fails the task without a retry."""
    run_id = running(bed, account)
    bed.command("dispatch", "cancel", "one", "run", run_id, "--reason", "enough", "--yes")
    stopped(account, account.pid())
    bed.ends("one", run_id, "run", "failed", seconds=90)
    assert settled(bed, run_id)["outcome"]["reason"] == "enough"
