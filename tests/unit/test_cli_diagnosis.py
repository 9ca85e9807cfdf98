"""What the doctor makes of what it finds: row by row, at each bound."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_dispatch.cli import diagnosis
from airflow_dispatch.cli.diagnosis import Level, Line
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.surface import options


@pytest.mark.parametrize(
    ("own", "metadata", "level"),
    [
        ("", "postgresql://a@db/airflow", Level.FAIL),
        ("postgresql://a@other/airflow", "postgresql://a@db/airflow", Level.WARN),
        ("postgresql://a@db/airflow", "postgresql://a@db/airflow", Level.OK),
    ],
)
def test_the_setting_of_the_database(own: str, metadata: str, level: Level) -> None:
    """Triggers need it, and it should be Airflow's own database."""
    assert diagnosis.database_setting(own, metadata).level is level


def test_a_database_that_is_not_set_comes_with_the_line_that_sets_it() -> None:
    """One that is set to nothing is told from one that is not set."""
    line = diagnosis.database_setting("", "x")
    assert options.SET_SQL_ALCHEMY_CONN in line.act
    assert line.found.startswith("it is not set")
    assert diagnosis.database_setting("", "x", given=True).found.startswith("it is empty")


@pytest.mark.parametrize(
    ("off", "level"),
    [(0, Level.OK), (5, Level.OK), (-5, Level.OK), (5.1, Level.WARN), (-6, Level.WARN)],
)
def test_clocks_that_differ_are_warned_of(off: float, level: Level) -> None:
    """By the one that is furthest off, in either direction."""
    ahead = {"the database": timedelta(0), "slurm": timedelta(seconds=off)}
    assert diagnosis.clocks(ahead).level is level
    assert diagnosis.clocks({}).level is Level.OK


@pytest.mark.parametrize(
    ("limit", "level"),
    [(1024, Level.WARN), (1255, Level.WARN), (1256, Level.OK), (-1, Level.OK)],
)
def test_open_files_against_the_capacity_of_a_triggerer(limit: int, level: Level) -> None:
    """One file for each trigger and some besides; no limit at all is fine."""
    assert diagnosis.open_files(limit, 1000).level is level


def test_without_a_triggerer_nothing_is_launched() -> None:
    """That is a failure; one alive is enough. The daemon goes on with what runs."""
    assert "looked after by `airflow dispatch supervise` alone" in diagnosis.triggerers([]).found
    assert diagnosis.triggerers([]).level is Level.FAIL
    assert diagnosis.triggerers(["host (job 7)"]).level is Level.OK


def test_little_room_is_warned_of() -> None:
    """Below what is wanted."""
    assert diagnosis.free_space("/runs", 2**30 - 1, 2**30).level is Level.WARN
    assert diagnosis.free_space("/runs", 2**30, 2**30).level is Level.OK


def test_only_a_failure_makes_the_exit_code() -> None:
    """Warnings are for people."""
    fine = Line(Level.OK, "a", "b")
    assert diagnosis.verdict([fine, Line(Level.WARN, "a", "b", "c")]) is Exit.OK
    assert diagnosis.verdict([fine, Line(Level.FAIL, "a", "b", "c")]) is Exit.ATTENTION


def test_every_line_that_is_not_ok_says_what_to_do() -> None:
    """For people and for programs."""
    lines = [
        diagnosis.database_setting("", "x"),
        diagnosis.clocks({"the database": timedelta(hours=1)}),
        diagnosis.open_files(10, 1000),
        diagnosis.triggerers([]),
        diagnosis.free_space("/runs", 0, 1),
        diagnosis.unused_root("cluster here", "/no/runs", parent_there=False),
    ]
    assert all(line.act and line.row()["act"] for line in lines)
    assert all(line.row_for_people()["what to do"] != "-" for line in lines)
