"""The settings of a `dispatch_local` connection, checked. Pure but for `~` and the count of cpus.

Airflow hands a connection's extra over as text, form fields or JSON values; each setting takes
what can only mean one thing and refuses the rest by name.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_dispatch import limits
from airflow_dispatch.errors import InvalidConfiguration

POLL_SECONDS = 0.1
NAMES = ("run_root", "slots", "poll_seconds")


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the cluster lives and what it may use."""

    run_root: str
    """Absolute folder on a disk of this host."""
    slots: int
    """CPUs that runs may hold together."""
    poll_seconds: float
    """How often a watch looks."""


def parse(name: str, settings: Mapping[str, object]) -> Settings:
    """Check the settings of the connection `name`; an empty value is a setting not given."""
    given = {key: value for key, value in settings.items() if value not in (None, "")}
    for key in given:
        if key not in NAMES:
            known = ", ".join(NAMES)
            raise InvalidConfiguration(
                f"connection {name!r}: the local cluster knows no setting {key!r}; it has {known}"
            )
    return Settings(
        run_root=_run_root(name, given.get("run_root", "")),
        slots=_slots(name, given.get("slots")),
        poll_seconds=_poll_seconds(name, given.get("poll_seconds")),
    )


def _run_root(name: str, value: object) -> str:
    if not value:
        raise InvalidConfiguration(
            f"connection {name!r}: run_root is missing; name a folder on a disk of this host, "
            'as {"run_root": "~/dispatch"}'
        )
    if not isinstance(value, str) or "\0" in value:
        raise InvalidConfiguration(f"connection {name!r}: run_root={value!r} is no folder's name")
    try:
        path = Path(value).expanduser()
    except RuntimeError as error:
        raise InvalidConfiguration(f"connection {name!r}: run_root={value!r}: {error}") from error
    if not path.is_absolute():
        raise InvalidConfiguration(
            f"connection {name!r}: run_root={value!r} must be absolute, or start with ~, because "
            "it means the same folder to every process"
        )
    return os.path.normpath(path)


def _slots(name: str, value: object) -> int:
    if value is None:
        return len(os.sched_getaffinity(0))
    number = _number(value)
    if number is None or number != int(number) or not 1 <= number <= limits.LOCAL_SLOTS_MAX:
        raise InvalidConfiguration(
            f"connection {name!r}: slots={value!r} must be a whole number of cpus from 1 to "
            f"{limits.LOCAL_SLOTS_MAX}, or absent for all of this host's"
        )
    return int(number)


def _poll_seconds(name: str, value: object) -> float:
    if value is None:
        return POLL_SECONDS
    least, most = limits.LOCAL_POLL_SECONDS_MIN, limits.LOCAL_POLL_SECONDS_MAX
    number = _number(value)
    if number is None or not least <= number <= most:
        raise InvalidConfiguration(
            f"connection {name!r}: poll_seconds={value!r} must be a number of seconds from {least} "
            f"to {most}"
        )
    return number


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
