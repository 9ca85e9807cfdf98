"""Amounts as people write them: `"16GiB"`, `"90m"`, `"1d 6h"`, `3600`, a timedelta.

Pure; refuses what is ambiguous.

A unit typo must never become a small number: text without a unit is refused for memory, and a unit
that is not in the table is named in the error together with the ones that are.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta

from airflow_dispatch import limits
from airflow_dispatch.errors import InvalidJob

MEMORY_UNITS: dict[str, int] = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
DURATION_UNITS: dict[str, int] = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}

_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", re.ASCII)


def memory_bytes(field: str, value: object) -> int:
    """Bytes from text as `"512MiB"` or `"16 GB"`; raises `InvalidJob` naming `field`."""
    units = ", ".join(MEMORY_UNITS)
    match = _MEMORY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise InvalidJob(
            f"{field}={value!r} is not an amount of memory; "
            f'write a number and a unit ({units}), as "16GiB"'
        )
    unit = MEMORY_UNITS.get(match[2])
    if unit is None:
        raise InvalidJob(f"{field}={value!r}: unknown unit {match[2]!r}; use one of {units}")
    amount = float(match[1]) * unit
    if not limits.MEMORY_BYTES_MIN <= amount <= limits.MEMORY_BYTES_MAX:
        raise InvalidJob(
            f"{field}={value!r} is {amount:.0f} bytes; it must lie between 1MiB and 1024TiB"
        )
    return int(amount)


def duration_seconds(field: str, value: object) -> int:
    """Whole seconds from a number, a timedelta or text as `"90m"`; raises `InvalidJob`."""
    seconds: float
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = value
    elif isinstance(value, str):
        seconds = _parsed_duration(field, value.strip())
    else:
        raise InvalidJob(
            f'{field}={value!r} is not a duration; give seconds, a timedelta or text as "90m"'
        )
    if not 1 <= seconds <= limits.DURATION_SECONDS_MAX:  # Not true of what is no number, either.
        raise InvalidJob(f"{field}={value!r} must lie between 1 second and 366 days")
    return math.ceil(seconds)


def _parsed_duration(field: str, text: str) -> float:
    total, rest = 0.0, text
    while rest:
        match = _DURATION_PART.match(rest)
        if match is None:
            raise InvalidJob(
                f'{field}={text!r} is not a duration; write numbers with units, as "90m" or "1d 6h"'
            )
        unit = DURATION_UNITS.get(match[2])
        if unit is None:
            known = ", ".join(DURATION_UNITS)
            raise InvalidJob(f"{field}={text!r}: unknown unit {match[2]!r}; use one of {known}")
        total += float(match[1]) * unit
        rest = rest[match.end() :]
    return total
