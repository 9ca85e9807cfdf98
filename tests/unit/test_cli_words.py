"""Times, lengths and names as the command line says them, and that no name can fool a terminal."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from airflow_dispatch.cli import words
from airflow_dispatch.core.identity import TaskKey

NOON = datetime(2030, 1, 1, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("manual__2030", "manual__2030"),
        ("été 日本 🙂", "été 日本 🙂"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("two\nlines\tand\r", "two\\nlines\\tand\\r"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\u2028", "\\u2028"),
        ("\x9b31m", "\\x9b31m"),
        ("\ud800", "\\ud800"),
        ("a\u200bb", "a\\u200bb"),
    ],
)
def test_what_a_terminal_obeys_is_escaped(text: str, shown: str) -> None:
    """Visible characters of any script stay; everything else is written as its escape."""
    assert words.clean(text) == shown


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "a few seconds ago"),
        (0.4, "a few seconds ago"),
        (59, "59 seconds ago"),
        (60, "1 minute ago"),
        (3_725, "1 hour ago"),
        (90_000, "1 day ago"),
    ],
)
def test_how_long_ago_is_said_as_people_say_it(seconds: float, said: str) -> None:
    """The greatest unit that is not zero, and never less than nothing."""
    assert words.ago(NOON - timedelta(seconds=seconds), NOON) == said


def test_times_are_told_in_utc() -> None:
    """A time of another zone is the same moment for people and for programs."""
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert words.moment(elsewhere) == "2030-01-01 12:00:00Z"
    assert words.stamp(elsewhere) == "2030-01-01T12:00:00+00:00"
    assert (words.moment(None), words.stamp(None)) == ("-", None)


def test_a_task_is_named_with_its_map_index() -> None:
    """Only a mapped task has one."""
    assert words.task(TaskKey("d", "dag", "run", "train")) == "dag.train"
    assert words.task(TaskKey("d", "dag", "run", "train", 0)) == "dag.train[0]"
