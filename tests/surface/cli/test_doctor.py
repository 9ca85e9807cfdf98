"""The doctor on a real installation: Airflow's own database, real local clusters, settings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import sessionmaker

from airflow_dispatch.cli.diagnosis import Level, Line
from tests.surface.cli.calling import Dispatch

SetOption = Callable[..., None]


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets a connection by its environment variable."""

    def set_connection(name: str, **extra: object) -> None:
        told = json.dumps({"conn_type": "dispatch_local", "extra": extra})
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", told)

    return set_connection


def examined(*named: str) -> dict[str, Line]:
    """The lines by what was examined; of several of one kind the worst."""
    from airflow_dispatch.cli import examining

    found: dict[str, Line] = {}
    for line in asyncio.run(examining.examine(named)):
        if line.what not in found or line.level is Level.FAIL:
            found[line.what] = line
    return found


def used(folder: Path) -> None:
    """The first job that a cluster gets makes its run root."""
    from airflow_dispatch.surface.clusters import connect
    from airflow_dispatch.surface.connections import Values

    async def probe() -> None:
        cluster = connect(Values("here", "dispatch_local", {"run_root": str(folder)}))
        await cluster.probe(create=True)
        await cluster.close()

    asyncio.run(probe())


def test_an_installation_that_is_well(
    airflow_database: str, option: SetOption, connection: Callable[..., None], tmp_path: Path
) -> None:
    """Everything is ok but that no triggerer runs here."""
    option(sql_alchemy_conn=airflow_database)
    connection("here", run_root=str(tmp_path / "runs"), slots=3)
    used(tmp_path / "runs")
    lines = examined()
    failed = {what for what, line in lines.items() if line.level is Level.FAIL}
    assert failed == {"triggerer"}
    assert lines["database"].found.endswith("0001")
    assert len(lines["deployment"].found) == 32
    assert "answers" in lines["cluster here"].found
    assert "3 cpus" in lines["slots of here"].found
    assert "here" in lines["clocks"].found


@pytest.mark.parametrize(("folder", "level"), [("runs", Level.OK), ("no/runs", Level.WARN)])
def test_a_run_root_that_no_job_used_yet_is_made_by_the_first(
    airflow_database: str,
    option: SetOption,
    connection: Callable[..., None],
    tmp_path: Path,
    *,
    folder: str,
    level: Level,
) -> None:
    """The doctor says so and makes none; it warns where the folder above is missing, too."""
    option(sql_alchemy_conn=airflow_database)
    connection("fresh", run_root=str(tmp_path / folder))
    line = examined("fresh")["cluster fresh"]
    assert (line.level, (tmp_path / folder).exists()) == (level, False)
    assert "no job has used it yet: the first launch makes its run root" in line.found


def test_a_folder_with_something_in_it_is_no_unused_run_root(
    airflow_database: str, option: SetOption, connection: Callable[..., None], tmp_path: Path
) -> None:
    """The first launch would refuse it: its marker may be on a disk that is not mounted."""
    option(sql_alchemy_conn=airflow_database)
    (tmp_path / "mine").touch()
    connection("fresh", run_root=str(tmp_path))
    line = examined("fresh")["cluster fresh"]
    assert line.level is Level.WARN
    assert "is no run root" in line.found


def test_a_run_root_that_cannot_be_written_is_a_failure(
    airflow_database: str,
    option: SetOption,
    connection: Callable[..., None],
    tmp_path: Path,
) -> None:
    """It has its marker, and launches would be refused."""
    option(sql_alchemy_conn=airflow_database)
    connection("here", run_root=str(tmp_path / "runs"))
    used(tmp_path / "runs")
    (tmp_path / "runs" / "spool").rmdir()
    (tmp_path / "runs" / "spool").write_text("in the way")
    line = examined("here")["cluster here"]
    assert line.level is Level.FAIL
    assert "cannot be used" in line.found


@pytest.mark.parametrize(
    ("extra", "said"), [({}, "run_root is missing"), ({"run_root": "/x", "slot": 1}, "'slot'")]
)
def test_a_connection_that_is_wrong_is_named(
    airflow_database: str,
    option: SetOption,
    connection: Callable[..., None],
    extra: dict[str, object],
    said: str,
) -> None:
    """With the setting to mend; so is one that is not there."""
    option(sql_alchemy_conn=airflow_database)
    connection("wrong", **extra)
    lines = examined("wrong", "nowhere")
    assert {lines["cluster wrong"].level, lines["cluster nowhere"].level} == {Level.FAIL}
    assert lines["cluster wrong"].act.startswith("mend it")
    assert said in lines["cluster wrong"].found
    assert "no Airflow connection 'nowhere'" in lines["cluster nowhere"].found


def test_a_database_without_our_tables_says_what_to_run(
    airflow_database: str, option: SetOption, tmp_path: Path
) -> None:
    """A failure, and the doctor goes on."""
    (tmp_path / "empty.db").touch()
    option(sql_alchemy_conn=f"sqlite:///{tmp_path}/empty.db")
    lines = examined()
    assert lines["database"].level is Level.FAIL
    assert "airflow db migrate" in lines["database"].found
    assert lines["[dispatch] sql_alchemy_conn"].level is Level.WARN
    assert "triggerer" in lines


def test_without_the_setting_triggers_would_know_no_database(airflow_database: str) -> None:
    """The one setting that a new installation forgets."""
    lines = examined()
    assert lines["[dispatch] sql_alchemy_conn"].level is Level.FAIL
    assert lines["database"].level is Level.OK


def test_an_empty_setting_is_none(airflow_database: str, option: SetOption) -> None:
    """Of blanks, too: what sets it found no URL to set."""
    option(sql_alchemy_conn=" ")
    line = examined()["[dispatch] sql_alchemy_conn"]
    assert (line.level, line.found.startswith("it is empty")) == (Level.FAIL, True)


def test_an_option_that_is_wrong_is_named(airflow_database: str, option: SetOption) -> None:
    """And nothing else can be examined with it."""
    option(sql_alchemy_conn=airflow_database, lease_seconds="a while")
    lines = examined()
    assert "lease_seconds" in lines["options"].found
    assert {lines["options"].level, lines["database"].level} == {Level.FAIL}


def test_an_airflow_database_that_fails_is_a_line_too(
    airflow_database: str, option: SetOption, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Airflow's own tables would tell is missing, and the doctor goes on without."""
    from airflow_dispatch.cli import examining

    gone = sessionmaker(sa.create_engine(f"sqlite:///{tmp_path}/no/such/folder/airflow.db"))
    monkeypatch.setattr(examining, "create_session", gone)
    option(sql_alchemy_conn=airflow_database)
    lines = examined()
    assert {lines["connections"].level, lines["triggerer"].level} == {Level.FAIL}
    assert "unable to open database file" in lines["triggerer"].found
    assert lines["database"].level is Level.OK
    assert "clocks" in lines


def test_no_password_is_shown(airflow_database: str, option: SetOption) -> None:
    """Neither of a URL that works nor of one that does not."""
    option(sql_alchemy_conn="postgresql://airflow:hunter2@127.0.0.1:1/none")
    said = " ".join(line.found + line.act for line in examined().values())
    assert "hunter2" not in said
    assert "airflow:***@127.0.0.1:1/none" in said


def test_the_command_prints_the_lines(
    airflow_database: str, option: SetOption, dispatch: Dispatch
) -> None:
    """For people and for programs; exit code 3, because no triggerer is alive."""
    option(sql_alchemy_conn=airflow_database)
    done = dispatch("doctor", "nowhere", "-o", "json")
    assert done.code == 3
    lines = {line["what"]: line for line in done.json}
    assert lines["triggerer"]["level"] == "fail"
    assert lines["options"] == {
        "level": "ok",
        "what": "options",
        "found": "the [dispatch] section is right",
        "act": None,
    }
    assert "start `airflow triggerer`" in dispatch("doctor", "nowhere").out
