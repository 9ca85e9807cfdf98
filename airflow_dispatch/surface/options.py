"""The options of the `[dispatch]` section: one table, read by everything that shows or uses them.

The provider info, `docs/reference/configuration.md` (checked by a test) and the typed reader in
`configuration` all come from here. Airflow asks for the provider info while it is being imported
itself, so this module imports no part of it, and hardly anything else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

SECTION = "dispatch"
VERSION_ADDED = "0.1.0"


class Kind(str, Enum):
    """How the text of an option is read."""

    TEXT = "text"
    """As it is."""
    SECONDS = "seconds"
    """A number; its unit is in the option's name."""
    DURATION = "duration"
    """A number with its unit, such as `90m`."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its name, what it is for, its default and its bounds in seconds."""

    name: str
    description: str
    kind: Kind
    default: str
    """Empty: none."""
    example: str
    least: float = 0
    most: float = 0
    sensitive: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that Airflow reads the option from."""
        return f"AIRFLOW__{SECTION}__{self.name}".upper()


SQL_ALCHEMY_CONN = Option(
    "sql_alchemy_conn",
    "URL of the database with the records, which is Airflow's own metadata database. Airflow hides"
    " its own setting of it from triggers, so the triggerers need this one; everything else falls"
    " back to [database] sql_alchemy_conn.",
    Kind.TEXT,
    default="",
    example="postgresql://airflow:password@db.example.com/airflow",
    sensitive=True,
)
SET_SQL_ALCHEMY_CONN = (
    f'export {SQL_ALCHEMY_CONN.variable}="$(airflow config get-value database sql_alchemy_conn)"'
)
"""The line of a shell that gives the triggerers started from it Airflow's own database."""
DEFAULT_TIME_LIMIT = Option(
    "default_time_limit",
    "time_limit of an operator that gives none: the longest time from the start of its command to"
    " the end. The cluster enforces it even when no part of Airflow is alive.",
    Kind.DURATION,
    default="24h",
    example="2d",
    least=1,
    most=366 * 86_400,
)
DEFAULT_GRACE = Option(
    "default_grace",
    "grace of an operator that gives none: the time between the warning signal of a stop and the"
    " kill.",
    Kind.DURATION,
    default="30s",
    example="5m",
    least=0,
    most=86_400,
)
LEASE_SECONDS = Option(
    "lease_seconds",
    "How long a supervisor owns a record without a sign of life. A triggerer that loads many"
    " triggers can stall for ten seconds. The lease decides how soon another supervisor takes over,"
    " never whether two of them can do harm.",
    Kind.SECONDS,
    default="60",
    example="120",
    least=15,
    most=3_600,
)
POLL_SECONDS = Option(
    "poll_seconds",
    "A job is looked at again after this long at the latest, even when its cluster shows no"
    " change.",
    Kind.SECONDS,
    default="5",
    example="30",
    least=0.1,
    most=600,
)
FIND_SECONDS = Option(
    "find_seconds",
    "One process asks one cluster what it holds at most once in this time, for all its jobs"
    " together.",
    Kind.SECONDS,
    default="1",
    example="10",
    least=0,
    most=600,
)
REPEAT_SECONDS = Option(
    "repeat_seconds",
    "A stop that shows no effect is sent again after this long.",
    Kind.SECONDS,
    default="10",
    example="30",
    least=1,
    most=3_600,
)
CALL_SECONDS = Option(
    "call_seconds",
    "A cluster refuses to carry out a call this long after the look that led to it.",
    Kind.SECONDS,
    default="30",
    example="60",
    least=5,
    most=600,
)
SETTLE_SECONDS = Option(
    "settle_seconds",
    "How long a trigger goes on settling a job after its outcome, before the task goes on. What is"
    " left then is settled by the daemon.",
    Kind.SECONDS,
    default="30",
    example="120",
    least=0,
    most=3_600,
)
WITNESS_WAIT_SECONDS = Option(
    "witness_wait_seconds",
    "How long the end of a run stays undecided while what the run itself wrote about it cannot be"
    " read.",
    Kind.SECONDS,
    default="60",
    example="300",
    least=1,
    most=86_400,
)
RETRY_SECONDS_MAX = Option(
    "retry_seconds_max",
    "The longest pause between two tries to reach a database or a cluster that does not answer.",
    Kind.SECONDS,
    default="60",
    example="300",
    least=1,
    most=3_600,
)
EVENT_DELAY_SECONDS = Option(
    "event_delay_seconds",
    "A trigger reports nothing in this time after its start: Airflow's scheduler can fail a task"
    " whose trigger fires within seconds of the deferral.",
    Kind.SECONDS,
    default="10",
    example="20",
    least=0,
    most=600,
)

OPTIONS: tuple[Option, ...] = (
    SQL_ALCHEMY_CONN,
    DEFAULT_TIME_LIMIT,
    DEFAULT_GRACE,
    LEASE_SECONDS,
    POLL_SECONDS,
    FIND_SECONDS,
    REPEAT_SECONDS,
    CALL_SECONDS,
    SETTLE_SECONDS,
    WITNESS_WAIT_SECONDS,
    RETRY_SECONDS_MAX,
    EVENT_DELAY_SECONDS,
)
