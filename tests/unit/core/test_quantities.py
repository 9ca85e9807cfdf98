"""Amounts: what people write becomes what they mean, and everything ambiguous is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from airflow_dispatch.core.quantities import (
    DURATION_UNITS,
    MEMORY_UNITS,
    duration_seconds,
    memory_bytes,
)
from airflow_dispatch.errors import InvalidJob


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1MiB", 1 << 20),
        ("1024TiB", 1 << 50),
        ("16GiB", 16 << 30),
        ("16 GB", 16 * 10**9),
        (" 512MiB ", 512 << 20),
        ("1.5GiB", 3 << 29),
        ("2000000B", 2_000_000),
        ("4000KB", 4_000_000),
    ],
)
def test_memory_is_what_it_says(text: str, amount: int) -> None:
    """Binary and decimal units are kept apart, blanks do not matter."""
    assert memory_bytes("memory", text) == amount


@pytest.mark.parametrize(
    "value",
    [
        16,
        16.0,
        True,
        None,
        "",
        "16",
        "GiB",
        "16GiB 1MiB",
        "-16GiB",
        "1e3GiB",
        "16,5GiB",
        "١GiB",
        "16G iB",
        "16GiB;rm",
        ["16GiB"],
    ],
)
def test_memory_that_is_no_amount_is_refused(value: object) -> None:
    """The refusal names the field, the value and the units: a missing unit is never guessed."""
    with pytest.raises(InvalidJob) as caught:
        memory_bytes("memory", value)
    assert "memory=" in str(caught.value)
    assert repr(value) in str(caught.value)
    assert all(unit in str(caught.value) for unit in MEMORY_UNITS)


@pytest.mark.parametrize("unit", ["G", "gib", "GIB", "PiB", "Gb"])
def test_an_unknown_unit_of_memory_is_named(unit: str) -> None:
    """A typo in the unit must not become a small number."""
    with pytest.raises(InvalidJob, match=f"unknown unit '{unit}'"):
        memory_bytes("memory", f"16{unit}")


@pytest.mark.parametrize(
    "text", ["0MiB", "1B", "1023KiB", "1025TiB", pytest.param("9" * 400 + "GiB", id="400 digits")]
)
def test_memory_out_of_range_is_refused(text: str) -> None:
    """Less than 1 MiB or more than 1024 TiB is a typo, however many digits it has."""
    with pytest.raises(InvalidJob, match="between 1MiB and 1024TiB"):
        memory_bytes("memory", text)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (90, 90),
        (1.2, 2),
        (timedelta(minutes=5), 300),
        (timedelta(seconds=1, microseconds=1), 2),
        ("90m", 5_400),
        ("90 min", 5_400),
        ("1d 6h", 108_000),
        ("1d6h", 108_000),
        (" 30s ", 30),
        ("0.5h", 1_800),
        (366 * 24 * 3600, 366 * 24 * 3600),
    ],
)
def test_a_duration_is_rounded_up_to_whole_seconds(value: object, seconds: int) -> None:
    """Nobody gets less time than was asked for."""
    assert duration_seconds("time_limit", value) == seconds


@pytest.mark.parametrize("value", [None, True, False, ["90m"], b"90m", {"s": 1}])
def test_what_is_no_duration_is_refused(value: object) -> None:
    """A value of another type is named together with what would do."""
    with pytest.raises(InvalidJob, match="is not a duration; give seconds") as caught:
        duration_seconds("time_limit", value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("text", ["90", "-5m", "5m!", "m", "1:30", "5m 6", "٣s"])
def test_text_without_numbers_and_units_is_refused(text: str) -> None:
    """Text needs a unit after each number: 90 alone could be minutes."""
    with pytest.raises(InvalidJob, match="write numbers with units"):
        duration_seconds("time_limit", text)


@pytest.mark.parametrize("text", ["90minutes", "5H", "1w", "1d 6hours", "1e3s"])
def test_an_unknown_unit_of_time_is_named(text: str) -> None:
    """The refusal lists the units that there are."""
    with pytest.raises(InvalidJob, match="unknown unit") as caught:
        duration_seconds("time_limit", text)
    assert all(unit in str(caught.value) for unit in DURATION_UNITS)


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        0.5,
        float("nan"),
        float("inf"),
        "",
        "  ",
        "0s",
        "367d",
        timedelta(0),
        timedelta(days=367),
        pytest.param(10**400, id="more digits than a float has"),
        pytest.param("9" * 400 + "d", id="the same as text"),
    ],
)
def test_a_duration_out_of_range_is_refused(value: object) -> None:
    """Less than a second, more than 366 days, and what is no number at all."""
    with pytest.raises(InvalidJob, match="between 1 second and 366 days"):
        duration_seconds("time_limit", value)
