"""What is shown of a job through its life: list, table of facts, document, explanation, history.

Every record here was made by the real supervisor on the doubles.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from airflow_dispatch.cli import (
    advice,
    document,
    explanation,
    facts,
    findings,
    reading,
    rows,
)
from airflow_dispatch.cli.standing import Standing
from airflow_dispatch.core.identity import Mark
from airflow_dispatch.core.job import Unmatched
from airflow_dispatch.core.record import Phase
from airflow_dispatch.core.steps import WAITS, StepName, WaitKind
from airflow_dispatch.core.view import CallKind
from airflow_dispatch.supervisor import acts
from tests.unit.supervisor.bench import DEPLOYMENT, JOB, TASK, Bench, key


async def standing(bench: Bench, generation: int = 1) -> Standing:
    """Where the job stands now, as every command reads it."""
    return await reading.standing(bench.services("reader"), await bench.record(generation))


async def read(bench: Bench) -> tuple[Standing, dict[str, Any], str]:
    """The standing, its document as a program reads it, and its facts as one text."""
    found = await standing(bench)
    table = "\n".join(f"{row['fact']}: {row['value']}" for row in facts.rows(found))
    return found, json.loads(json.dumps(document.of(found))), table


async def running(bench: Bench) -> None:
    """A job whose one object runs, and whose supervisor has just gone."""
    await bench.made()
    await bench.drive()


async def test_a_running_job() -> None:
    """Stage, wait, the canonical object and where its output is."""
    bench = Bench()
    await running(bench)
    found, shown, table = await read(bench)
    assert (shown["stage"], shown["outcome"], shown["receipt"]) == ("running", None, "none")
    assert [wait["kind"] for wait in shown["waits"]] == ["running"]
    (held,) = shown["objects"]
    assert (held["canonical"], held["foreign"], held["phase"]) == (True, False, "running")
    assert held["output"].startswith("memory:")
    assert held["starts"][0]["started"] is True
    assert f"object 1 output: {held['output']}" in table
    assert rows.listed_for_people(found)["waits for"] == "running"
    assert rows.listed(found)["waits"] == ["running"]


async def test_a_job_that_failed_says_why_and_what_to_do() -> None:
    """The cause with its number, typed, and its meaning."""
    bench = Bench()
    await running(bench)
    bench.cluster.run_ends(bench.only().id, 3)
    await bench.drive()
    found, shown, table = await read(bench)
    assert shown["outcome"]["state"] == "failed"
    assert (shown["outcome"]["cause"]["kind"], shown["outcome"]["cause"]["number"]) == ("exit", 3)
    assert shown["settled"] is True
    assert "failed: exit(3)" in table
    assert "read the run's output" in table
    assert rows.listed_for_people(found)["outcome"] == "failed: exit"
    assert (found.status.unattended, rows.listed_for_people(found)["attended"]) == (False, "-")
    said = explanation.lines(found)
    assert "Outcome: failed: exit(3) (the command ended with an exit code other than 0; read" in (
        "".join(said)
    )
    assert f"  Its output: {shown['objects'][0]['output']}" in said


async def test_a_cancelled_job_shows_its_receipt() -> None:
    """Committed, then stopping, then complete; with who cancelled it and why."""
    bench = Bench()
    await running(bench)
    await acts.cancel(bench.services(), key(), actor="person:ada", reason="wrong data")
    _, shown, table = await read(bench)
    assert (shown["receipt"], shown["stage"]) == ("committed", "cleaning_up")
    assert shown["next_step"] is not None
    assert "still to be stopped" in table
    await bench.drive()
    assert (await read(bench))[1]["receipt"] == "stopping"
    bench.pass_time(JOB.grace_seconds + 1)
    await bench.drive()
    _, shown, table = await read(bench)
    assert (shown["receipt"], shown["settled"]) == ("complete", True)
    assert (shown["outcome"]["actor"], shown["outcome"]["reason"]) == ("person:ada", "wrong data")
    assert "cancelled by person:ada: wrong data" in table


async def test_who_attends_a_job() -> None:
    """A lease, then nobody for less than a grace, then nobody for longer: an alarm."""
    bench = Bench()
    await running(bench)
    bench.clock.advance(1)
    lease = await bench.store.claim(key(), "triggerer@host:1", seconds=60)
    found, shown, table = await read(bench)
    assert shown["attended"]["owner"] == "triggerer@host:1"
    assert "by triggerer@host:1" in table
    assert "triggerer@host:1 looks after it" in explanation.lines(found)[-1]
    await bench.store.yield_(lease)  # type: ignore[arg-type]  # it was free
    bench.clock.advance(59)
    found, shown, _ = await read(bench)
    assert shown["attended"] == {
        "owner": "",
        "until": found.since.isoformat(),
        "unattended": False,
    }
    assert explanation.lines(found)[-1] == (
        "It was looked after 59 seconds ago; a supervisor comes by again within moments."
    )
    bench.clock.advance(2)
    found, shown, table = await read(bench)
    assert shown["attended"]["unattended"] is True
    assert "attended: NO: nobody since" in table
    assert explanation.START_ONE in explanation.lines(found)[-1]
    assert rows.listed_for_people(found)["attended"] == "NO"


async def test_a_job_that_nobody_ever_claimed_is_unattended_after_the_grace() -> None:
    """It counts from its making, so that a new job is no alarm."""
    bench = Bench()
    await bench.made()
    found = await standing(bench)
    assert not found.status.unattended
    assert "Nobody has looked after it since" in explanation.lines(found)[-1]
    bench.clock.advance(61)
    found = await standing(bench)
    assert found.status.unattended
    assert found.since == found.record.state.created_at


async def test_an_explanation_names_the_promise_what_ends_the_wait_and_what_to_do() -> None:
    """For a try that waits for the one before it, with the command that reads on."""
    bench = Bench()
    await running(bench)
    bench.row(max_tries=1, try_number=2, ti_id="ti-2")  # Cleared.
    await bench.made()
    await bench.drive(generation=2)
    found = await standing(bench, generation=2)
    text = "\n".join(explanation.lines(found))
    assert "earlier try to end for certain" in text
    assert "two runs of one task never run at once [no-overlap]" in text
    assert "Read on: airflow dispatch explain dag train run --generation 1" in text
    assert [wait["kind"] for wait in explanation.of(found)["waits"]] == ["predecessor"]  # type: ignore[index, call-overload, union-attr]  # JSON


async def test_history_tells_each_commit_and_keeps_its_payload() -> None:
    """For people a sentence, for programs the typed body too, in order."""
    bench = Bench()
    await running(bench)
    entries = await reading.history(bench.services(), key())
    told = [rows.entry_for_people(one) for one in entries]
    assert [row["rev"] for row in told] == [str(n) for n in range(1, len(entries) + 1)]
    assert told[0]["kind"] == "begun"
    assert {row["weight"] for row in told} == {"decision", "evidence"}
    kept = [json.loads(json.dumps(rows.entry(one))) for one in entries]
    assert kept[0]["payload"]["job"]["command"] == ["train"]
    assert kept[1]["actor"] == "supervisor:a"


async def test_a_hostile_name_moves_no_cursor() -> None:
    """Reasons of people and words of schedulers reach a terminal escaped, a program whole."""
    bench = Bench()
    await running(bench)
    await acts.cancel(bench.services(), key(), actor="person:\x1b[8m", reason="a\nb\x1b[2J")
    found, shown, table = await read(bench)
    texts = [table, *explanation.lines(found), *rows.listed_for_people(found).values()]
    assert not any("\x1b" in text for text in texts)
    assert shown["outcome"]["reason"] == "a\nb\x1b[2J"


async def test_a_foreign_object_is_shown_and_found() -> None:
    """It bears the mark of the job and no attempt that the record knows."""
    bench = Bench()
    await running(bench)
    mark = Mark(DEPLOYMENT, TASK.digest, 1, 1, 9, "nobody-knows")
    bench.cluster.put("stray", mark, JOB, phase=Phase.RUNNING)
    await bench.drive()
    found, shown, table = await read(bench)
    assert [one["id"] for one in shown["objects"] if one["foreign"]] == ["stray"]
    assert "FOREIGN" in table
    (finding,) = findings.of([found])
    assert (finding.kind, "stray" in finding.what) == (findings.Kind.FOREIGN, True)


async def test_a_script_is_shown_by_its_size() -> None:
    """The document stays small, whatever the script is."""
    bench = Bench()
    await bench.made(job=replace(JOB, command=(), script="#!/bin/sh\ntrue\n"))
    _, shown, _ = await read(bench)
    assert shown["job"]["script_bytes"] == 15
    assert "script" not in shown["job"]


async def test_a_job_whose_connection_is_gone_is_shown_all_the_same() -> None:
    """Only the places are missing."""
    bench = Bench()
    await running(bench)
    services = replace(bench.services(), clusters=replace(bench.services().clusters, clusters={}))  # type: ignore[type-var]  # the double is a dataclass
    shown = document.of(await reading.standing(services, await bench.record()))
    assert shown["objects"][0]["output"] is None  # type: ignore[index, call-overload]  # JSON


async def test_the_tables_of_advice_are_whole() -> None:
    """Every wait, step and promise has its words."""
    assert set(advice.WAITS) == set(WaitKind)
    assert set(advice.STEPS) == set(StepName)
    assert {meaning.promise for meaning in WAITS.values()} - {""} <= set(advice.PROMISES)
    said = [text for one in advice.WAITS.values() for text in (one.ends, one.act)]
    assert all(text and not text.endswith(".") for text in said)


# --- check ----------------------------------------------------------------------------------------


async def test_a_job_that_is_looked_after_is_no_finding() -> None:
    """Nor is a settled one."""
    bench = Bench()
    await running(bench)
    assert findings.of([await standing(bench)]) == []
    bench.cluster.run_ends(bench.only().id)
    await bench.drive()
    bench.clock.advance(3600)
    assert findings.of([await standing(bench)]) == []


async def test_a_job_without_a_supervisor_is_found() -> None:
    """It says since when, and what to do."""
    bench = Bench()
    await running(bench)
    bench.clock.advance(3600)
    (finding,) = findings.of([await standing(bench)])
    assert finding.kind is findings.Kind.UNATTENDED
    assert "running and nobody has looked after it since 2030-01-01" in finding.what
    assert "airflow dispatch supervise" in finding.act
    assert finding.row()["digest"] == key().digest


async def test_a_cancel_that_nobody_carries_out_is_found_as_such() -> None:
    """It is worse than a job without a supervisor, and says so instead."""
    bench = Bench()
    await running(bench)
    await acts.cancel(bench.services(), key(), actor="person:ada", reason="wrong data")
    bench.clock.advance(3600)
    (finding,) = findings.of([await standing(bench)])
    assert finding.kind is findings.Kind.CANCEL_UNSERVED
    assert "what runs may go on" in finding.what


async def test_a_job_that_waits_for_a_person_is_found() -> None:
    """A manual attempt whose reply was lost and whose object is not there."""
    bench = Bench()
    bench.cluster.hold_back(CallKind.START)
    await bench.made(job=replace(JOB, unmatched=Unmatched.MANUAL))
    await bench.drive()
    await acts.cancel(bench.services(), key(), actor="person:ada", reason="enough")
    for _ in range(3):
        bench.pass_time(60)
        await bench.drive()
    (finding,) = findings.of([await standing(bench)])
    assert finding.kind is findings.Kind.PERSON
    assert "dispose of a start call that nobody answered" in finding.what
