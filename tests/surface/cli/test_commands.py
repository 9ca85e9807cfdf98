"""The commands through Airflow's own parser: what they print, where, and with which exit code.

Records are made by the real supervisor on the shipped doubles; `world` puts those behind the
commands in place of database and clusters.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from airflow_dispatch.core.identity import TaskKey
from airflow_dispatch.errors import StoreUnavailable
from airflow_dispatch.ports.store import Filter, Page
from airflow_dispatch.supervisor import acts
from airflow_dispatch.supervisor.resolve import Try, resolve
from tests.surface.cli.calling import Dispatch
from tests.surface.world import World
from tests.unit.supervisor.bench import DEPLOYMENT, JOB, ROW, key


@pytest.fixture
def running(world: World) -> World:
    """A job whose run goes on, and whose supervisor has just gone."""
    asyncio.run(world.bench.made())
    asyncio.run(world.bench.drive())
    return world


def cancelled(world: World, *, reason: str = "wrong data") -> None:
    """A person cancelled the job."""
    asyncio.run(acts.cancel(world.bench.services(), key(), actor="person:ada", reason=reason))


def test_list_prints_typed_json_and_a_table(running: World, dispatch: Dispatch) -> None:
    """The same jobs for programs and for people."""
    (row,) = dispatch("list", "-o", "json").json
    assert (row["digest"], row["stage"], row["generation"]) == (key().digest, "running", 1)
    table = dispatch("list").out
    assert key().digest[:12] in table
    assert key().digest not in table
    assert "dag.train" in dispatch("list", "-o", "plain").out
    assert "stage: running" in dispatch("list", "-o", "yaml").out


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--dag-id", "dag"], 2),
        (["--dag-id", "other"], 0),
        (["--cluster", "memory"], 2),
        (["--run-id", "run", "--task-id", "second"], 1),
        (["--open"], 1),
        (["--outcome", "succeeded"], 1),
        (["--outcome", "failed"], 0),
        (["--unattended"], 0),
    ],
)
def test_list_filters(running: World, dispatch: Dispatch, words: list[str], count: int) -> None:
    """By DAG, task, run, cluster, and by how a job stands."""
    second = TaskKey(DEPLOYMENT, "dag", "run", "second")
    running.bench.tasks.set(second, replace(ROW, ti_id="second"))
    asyncio.run(resolve(running.bench.services(), Try(second, "second", 1), JOB))
    running.bench.cluster.run_ends(running.bench.only().id)
    asyncio.run(running.bench.drive())
    assert len(dispatch("list", "-o", "json", *words).json) == count


@pytest.mark.parametrize("command", ["show", "history", "explain", "cancel"])
def test_a_mapped_task_without_its_index_is_told_which_there_are(
    running: World, dispatch: Dispatch, command: str
) -> None:
    """Nothing is guessed at; a wrong index is not answered so."""
    for index in (2, 0):
        task = TaskKey(DEPLOYMENT, "dag", "run", "mapped", index)
        running.bench.tasks.set(task, replace(ROW, ti_id=f"mapped-{index}"))
        asyncio.run(resolve(running.bench.services(), Try(task, f"mapped-{index}", 1), JOB))
    names = ["dag", "mapped", "run"]
    done = dispatch(command, *names)
    assert done.code == 1
    assert "is mapped, and has jobs at these indexes: 0, 2. Add --map-index 0" in done.err
    assert "map index 7" in dispatch(command, *names, "--map-index", "7").err


def test_list_says_when_it_shows_a_part(running: World, dispatch: Dispatch) -> None:
    """On stderr, where it does not disturb a program."""
    running.bench.row(max_tries=1, try_number=2, ti_id="ti-2")
    asyncio.run(running.bench.made())
    done = dispatch("list", "--limit", "1", "-o", "json")
    assert [row["generation"] for row in done.json] == [2]
    assert "--limit" in done.err


def test_show_takes_a_digest_or_names(running: World, dispatch: Dispatch) -> None:
    """The newest generation, unless another is asked for."""
    running.bench.row(max_tries=1, try_number=2, ti_id="ti-2")
    asyncio.run(running.bench.made())
    names = ["dag", "train", "run"]
    assert dispatch("show", *names, "-o", "json").json["key"]["generation"] == 2
    first = dispatch("show", *names, "--generation", "1", "-o", "json").json
    assert first["key"]["generation"] == 1
    assert dispatch("show", first["digest"][:6], "-o", "json").json == first
    assert first["digest"] in dispatch("show", first["digest"]).out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["show", "abc"], 1, "too short"),
        (["show", "no-digits"], 1, "no start of a digest"),
        (["show", "000000"], 1, "no job has a digest that begins with 000000"),
        (["show", "dag", "train", "other"], 1, "no job of DAG 'dag'"),
        (["show", "dag", "train"], 1, "2 words"),
        (["show", "dag", "train", "run", "--map-index", "3"], 1, "map index 3"),
        (["show"], 2, "required"),
        (["show", "dag", "train", "run", "--generation", "0"], 2, "invalid positive int"),
        (["list", "--outcome", "lost"], 2, "invalid choice"),
        (["list", "-o", "xml"], 2, "invalid choice"),
        (["supervise", "--once", "--interval", "0"], 1, "--interval 0 must be"),
        (["cancel", "000000", "--yes"], 1, "no job has a digest"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    running: World, dispatch: Dispatch, words: list[str], code: int, said: str
) -> None:
    """On stderr, with a code of its own, and without a traceback."""
    done = dispatch(*words)
    assert (done.code, "Traceback" in done.err) == (code, False)
    assert said in done.err
    if code == 1:
        assert done.out == ""
        assert len(done.err.splitlines()) == 1


def test_a_database_that_does_not_answer_is_one_sentence(
    running: World, dispatch: Dispatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what is true outside."""

    async def fails() -> None:
        raise StoreUnavailable("the database does not answer; what runs goes on")

    monkeypatch.setattr(running.bench.store, "deployment", fails)
    done = dispatch("list")
    assert done == (1, "", "airflow dispatch: the database does not answer; what runs goes on\n")
    assert running.opened == running.closed


@pytest.mark.parametrize("command", ["list", "check"])
def test_a_record_that_cannot_be_read_hides_no_other(
    running: World, dispatch: Dispatch, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """It is told on stderr and by the exit code; all the others are listed and checked."""
    store, told = running.bench.store, "record 0123456789ab: a stored record has version 999"
    listed = store.list

    async def one_more(wanted: Filter, *, cursor: str | None = None, limit: int = 100) -> Page:
        page = await listed(wanted, cursor=cursor, limit=limit)
        return replace(page, unreadable=(told,))

    monkeypatch.setattr(store, "list", one_more)
    running.bench.pass_time(1_000)
    done = dispatch(command, "-o", "json")
    assert (done.code, done.err) == (3, f"airflow dispatch: {told}\n")
    assert [one["digest"] for one in done.json] == [key().digest]
    asking = dispatch("show", "abcdef")
    assert (asking.code, asking.err) == (1, f"airflow dispatch: {told}\n")


def test_brackets_in_names_are_no_markup(running: World, dispatch: Dispatch) -> None:
    """Airflow's tables would take them for styles, and words between colons for emoji."""
    cancelled(running, reason="[bold]loud[/bold] :smile:")
    for command in ("show", "history"):
        shown = dispatch(command, "dag", "train", "run").out
        assert "[bold]loud[/bold] :smile:" in shown


def test_history_for_people_and_programs(running: World, dispatch: Dispatch) -> None:
    """One row a commit, with its payload for programs."""
    entries = dispatch("history", key().digest, "-o", "json").json
    assert [entry["revision"] for entry in entries] == list(range(1, len(entries) + 1))
    assert entries[0]["payload"]["job"]["cluster"] == "memory"
    assert "is authorized" in dispatch("history", key().digest).out


def test_explain_speaks(running: World, dispatch: Dispatch) -> None:
    """In sentences for people, and the waits by kind for programs."""
    assert "It waits for the run to end" in dispatch("explain", key().digest).out
    told = dispatch("explain", key().digest, "-o", "json").json
    assert [wait["kind"] for wait in told["waits"]] == ["running"]


def test_check_fails_for_what_somebody_has_to_see_to(running: World, dispatch: Dispatch) -> None:
    """Exit code 3 and a row for each; 0 and a sentence where all is well."""
    done = dispatch("check")
    assert (done.code, done.out) == (0, "Nothing to see to: 1 open job.\n")
    assert dispatch("check", "-o", "json") == (0, "[]\n", "")
    cancelled(running)
    running.bench.clock.advance(3600)
    done = dispatch("check", "-o", "json")
    assert (done.code, [row["kind"] for row in done.json]) == (3, ["cancel_unserved"])
    assert dispatch("check").code == 3


def test_cancel_asks_first(
    running: World, dispatch: Dispatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is not there, or says anything but yes, cancels nothing."""

    def nobody(_prompt: str) -> str:
        raise EOFError

    for answer in (nobody, lambda _prompt: "no", lambda _prompt: ""):
        monkeypatch.setattr("builtins.input", answer)
        done = dispatch("cancel", key().digest)
        assert (done.code, "Declined" in done.out) == (4, True)
    assert asyncio.run(running.record()).state.outcome is None


def test_cancel_commits_in_the_name_of_the_user(running: World, dispatch: Dispatch) -> None:
    """With the reason given; the exit code says that nobody carries it out yet."""
    done = dispatch("cancel", key().digest, "--yes", "--reason", "wrong data", "--wait", "1")
    assert done.code == 3
    outcome = asyncio.run(running.record()).state.outcome
    assert str(outcome) == f"cancelled by person:{getpass.getuser()}: wrong data"


def test_supervise_once_carries_a_cancel_out(running: World, dispatch: Dispatch) -> None:
    """What no triggerer does is done, and the record settles."""
    cancelled(running)
    assert dispatch("supervise", "--once").code == 0
    running.bench.pass_time(JOB.grace_seconds + 1)
    assert dispatch("supervise", "--once").code == 0
    assert asyncio.run(running.record()).state.settled_revision
    assert dispatch("check").code == 0


def test_every_command_closes_what_it_opened(running: World, dispatch: Dispatch) -> None:
    """Also the ones that fail."""
    for words in (["list"], ["show", key().digest], ["show", "000000"], ["supervise", "--once"]):
        dispatch(*words)
    assert running.opened == running.closed == 4


PRINTS = """
from airflow_dispatch.cli import commands, output
from airflow_dispatch.cli.exits import Exit
def work():
    output.document(["line"] * 10_000, "yaml")
    return Exit.OK
commands.leave(work)
"""


def test_a_reader_that_has_enough_ends_a_command_quietly(airflow_database: str) -> None:
    """`airflow dispatch list | head -1` ends without a traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-c", PRINTS],
            stdout=nobody,
            stderr=subprocess.PIPE,
            check=False,
            timeout=120,
        )
    assert (done.returncode, b"Traceback" in done.stderr) == (1, False), done.stderr
