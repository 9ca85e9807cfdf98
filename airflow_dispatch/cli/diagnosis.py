"""What `airflow dispatch doctor` judges, from values: each line is ok, a warning, or a failure.

A failure is what keeps jobs from being launched or supervised; a warning is what may. Each line
says what was found and, unless it is ok, what to do. Looking is `examining`'s part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from airflow_dispatch.cli import words
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.core.codec import Json
from airflow_dispatch.surface import options

CLOCK_SKEW = timedelta(seconds=5)
FILES_BESIDE_TRIGGERS = 256
"""Files that a triggerer has open besides the log of each trigger, generously."""


class Level(str, Enum):
    """How a line came out."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was examined. `act` is empty where nothing needs doing."""

    level: Level
    what: str
    found: str
    act: str = ""

    def row(self) -> dict[str, Json]:
        """The line for programs."""
        return {
            "level": self.level.value,
            "what": self.what,
            "found": self.found,
            "act": self.act or None,
        }

    def row_for_people(self) -> dict[str, str]:
        """The line for people."""
        return {
            "result": self.level.value,
            "what": words.clean(self.what),
            "found": words.clean(self.found),
            "what to do": words.clean(self.act) or "-",
        }


def verdict(lines: Sequence[Line]) -> Exit:
    """The exit code that the lines come to."""
    failed = any(line.level is Level.FAIL for line in lines)
    return Exit.ATTENTION if failed else Exit.OK


def ok(what: str, found: str) -> Line:
    """All is well."""
    return Line(Level.OK, what, found)


def warn(what: str, found: str, act: str) -> Line:
    """This may hurt."""
    return Line(Level.WARN, what, found, act)


def fail(what: str, found: str, act: str) -> Line:
    """This keeps jobs from being launched or supervised."""
    return Line(Level.FAIL, what, found, act)


def database_setting(own: str, metadata: str, *, given: bool = False) -> Line:
    """Whether triggers can know the database, and whether it is Airflow's own.

    Both are addresses without their passwords. `given` is whether ours is set, if only to nothing.
    """
    what = "[dispatch] sql_alchemy_conn"
    if not own:
        state = "empty" if given else "not set"
        return fail(
            what,
            f"it is {state}, and Airflow hides its own setting from triggers",
            f"set it wherever a triggerer is started: {options.SET_SQL_ALCHEMY_CONN}",
        )
    if own != metadata:
        return warn(
            what,
            f"{own}, while [database] sql_alchemy_conn is {metadata}",
            "name the same database in both: records belong into Airflow's own",
        )
    return ok(what, own)


def clocks(off: Mapping[str, timedelta]) -> Line:
    """Whether the clocks of the database and of the clusters agree with this host's.

    Each with how far it was ahead when it was read.
    """
    what = "clocks"
    worst = max(off.values(), key=abs, default=timedelta(0))
    told = ", ".join(f"{name} {span.total_seconds():+.1f} s" for name, span in off.items())
    found = f"against this host: {told or 'nothing to compare with'}"
    if abs(worst) <= CLOCK_SKEW:
        return ok(what, found)
    return warn(what, found, "let all hosts follow one time server (NTP)")


def open_files(limit: int, capacity: int) -> Line:
    """Whether a triggerer started like this could hold all its triggers.

    It keeps one log file open for each of them. A limit below 0 is none.
    """
    what = "open files"
    needed = capacity + FILES_BESIDE_TRIGGERS
    found = f"limit {limit if limit >= 0 else 'none'}, [triggerer] capacity {capacity}"
    if limit < 0 or limit >= needed:
        return ok(what, found)
    return warn(
        what,
        f"{found}: a triggerer has a file open for each trigger and would run out of them",
        f"raise the limit of the triggerers to {needed} or more (`ulimit -n`, systemd LimitNOFILE)",
    )


def triggerers(alive: Sequence[str]) -> Line:
    """Whether somebody runs triggers at all."""
    what = "triggerer"
    if alive:
        return ok(what, f"alive: {', '.join(alive)}")
    return fail(
        what,
        "no triggerer is alive: no task's run is launched; what runs is looked after by"
        " `airflow dispatch supervise` alone",
        "start `airflow triggerer`",
    )


def unused_root(what: str, path: str, *, parent_there: bool) -> Line:
    """A run root that is missing or empty, and that no job has used yet."""
    found = f"no job has used it yet: the first launch makes its run root {path}"
    if parent_there:
        return ok(what, found)
    return warn(
        what,
        f"{found}, and the folders above it, which are missing",
        "see that the path is meant, and its disk mounted",
    )


def free_space(path: str, free: int, wanted: int) -> Line:
    """Whether a run root has room."""
    what = f"space in {path}"
    found = f"{free / 2**30:.1f} GiB free"
    if free >= wanted:
        return ok(what, found)
    return warn(what, found, "free some: a launch is refused once the disk is full")
