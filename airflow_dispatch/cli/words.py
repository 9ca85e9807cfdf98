"""Small words of the command line: times, lengths of time, names of jobs, text safe to show.

Run ids, reasons and the scheduler's own words come from elsewhere and may hold anything: what goes
to a terminal passes `clean` first, so that no name can move the cursor or hide a line.
"""

from __future__ import annotations

import unicodedata
from datetime import datetime, timezone

import pendulum

from airflow_dispatch.core.identity import JobKey, TaskKey

DIGEST_CHARS = 12
"""How much of a digest people are shown."""

_DECEPTIVE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that a terminal obeys, reorders by, or cannot show."""


def clean(text: str) -> str:
    """The text on one line, with every character that is no visible one written as its escape."""
    return "".join(
        c.encode("unicode_escape").decode("ascii") if unicodedata.category(c) in _DECEPTIVE else c
        for c in text
    )


def short(digest: str) -> str:
    """The start of a digest, as every command takes it back."""
    return digest[:DIGEST_CHARS]


def task(key: TaskKey) -> str:
    """`dag_id.task_id[map_index]`."""
    mapped = f"[{key.map_index}]" if key.map_index >= 0 else ""
    return clean(f"{key.dag_id}.{key.task_id}{mapped}")


def job(key: JobKey) -> str:
    """The job in one phrase, with the digest by which commands take it."""
    return f"{short(key.digest)} ({task(key.task)}, generation {key.generation})"


def moment(at: datetime | None) -> str:
    """A time in UTC to the second; `-` for none."""
    if at is None:
        return "-"
    return at.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")


def stamp(at: datetime | None) -> str | None:
    """A time for programs: ISO 8601 in UTC; None for none."""
    return None if at is None else at.astimezone(timezone.utc).isoformat()


def ago(at: datetime, now: datetime) -> str:
    """How long ago a time is, as a person says it; a later one is no time ago."""
    since, until = pendulum.instance(min(at, now)), pendulum.instance(now)
    return f"{until.diff_for_humans(since, absolute=True, locale='en')} ago"


def count(number: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
