"""What is waited for, how long between looks, and what a wrongly configured process does."""

from __future__ import annotations

import asyncio
import time

import pytest

from airflow_dispatch.errors import (
    ClusterUnavailable,
    InvalidConfiguration,
    JobRefused,
    StoreUnavailable,
    UnreadableRecord,
)
from airflow_dispatch.ports.journal import Level
from airflow_dispatch.surface import patience, runtime
from airflow_dispatch.surface.connections import DirectConnections
from airflow_dispatch.testing.doubles import Lines
from tests.surface.conftest import SetOption
from tests.surface.test_trigger import reported
from tests.surface.world import World
from tests.unit.supervisor.bench import Bench


async def test_looks_get_rarer_up_to_a_bound() -> None:
    """2, 4, 8, ... seconds, then a minute each; every one is told."""
    bench = Bench()
    fails = 10

    async def attempt() -> str:
        nonlocal fails
        fails -= 1
        if fails >= 0:
            raise StoreUnavailable("silent")
        return "there"

    found = await patience.insist(bench.services(), attempt, on=(StoreUnavailable,))
    assert found == "there"
    assert bench.clock.monotonic() == 2 + 4 + 8 + 16 + 32 + 5 * 60
    assert bench.lines.told[0] == (
        Level.WARNING,
        "silent (looking again in 2 s, outage 1)",
    )
    assert len(bench.lines.told) == 10


async def test_what_is_not_waited_for_ends_the_wait_at_once() -> None:
    """Only what the caller names is waited for."""
    bench = Bench()

    async def attempt() -> None:
        raise JobRefused("no")

    with pytest.raises(JobRefused):
        await patience.insist(bench.services(), attempt, on=(StoreUnavailable,))
    assert bench.clock.monotonic() == 0


async def test_a_wait_with_an_end_raises_the_last_failure() -> None:
    """It never sleeps beyond its end."""
    bench = Bench()

    async def attempt() -> None:
        raise ClusterUnavailable("silent")

    with pytest.raises(ClusterUnavailable):
        await patience.insist(bench.services(), attempt, on=(ClusterUnavailable,), seconds=20)
    assert bench.clock.monotonic() <= 20


async def test_a_triggerer_that_is_configured_wrong_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It fails no task, and says each time what to set and that the run goes on."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("airflow_dispatch.surface.patience.asyncio.sleep", sleep)
    lines = Lines()
    left = [InvalidConfiguration("one"), UnreadableRecord("two"), *[InvalidConfiguration("x")] * 6]

    def check() -> None:
        if left:
            raise left.pop(0)

    await patience.configured(lines, check, wait=True)
    assert slept == [30, 60, 120, 240, 480, 900, 900, 900]
    level, text = lines.told[0]
    assert level is Level.ERROR
    assert text.startswith("one. This triggerer launches and supervises nothing")
    assert "what runs goes on" in text


async def test_inline_there_is_nobody_to_wait_for() -> None:
    """The failure comes out at once."""

    def check() -> None:
        raise InvalidConfiguration("one")

    with pytest.raises(InvalidConfiguration):
        await patience.configured(Lines(), check, wait=False)


async def test_an_inline_trigger_refuses_what_is_configured_wrong(
    monkeypatch: pytest.MonkeyPatch, option: SetOption
) -> None:
    """`dag.test()` fails the task with the sentence."""
    trigger = World().trigger(trigger_id=None)
    option(poll_seconds="often")
    (payload,) = await reported(trigger)
    assert payload["refused"].startswith("[dispatch] poll_seconds = 'often' must be")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lease_seconds": "1"}, "[dispatch] lease_seconds"),
        ({"event_delay_seconds": "x"}, "[dispatch] event_delay_seconds"),
        ({"default_grace": "x"}, "[dispatch] default_grace"),
        ({"sql_alchemy_conn": "oracle://host/db"}, "PostgreSQL"),
        ({"sql_alchemy_conn": "no url"}, "sql_alchemy_conn"),
    ],
)
async def test_every_option_is_checked_before_anything_is_contacted(
    option: SetOption, options: dict[str, str], words: str
) -> None:
    """One that would matter only hours later is found at the start."""
    option(**options)
    with pytest.raises(InvalidConfiguration) as wrong:
        runtime.make(DirectConnections())
    assert words in str(wrong.value)


async def test_no_event_comes_too_soon(monkeypatch: pytest.MonkeyPatch, option: SetOption) -> None:
    """What is left of the delay is slept, and nothing once it has passed."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("airflow_dispatch.surface.patience.asyncio.sleep", sleep)
    option(event_delay_seconds="10")
    began = time.monotonic()
    await patience.not_too_soon(began)
    await patience.not_too_soon(began - 60)
    assert slept == [pytest.approx(10, abs=1), 0]


async def test_waiting_can_be_cancelled(world: World) -> None:
    """A trigger that waits is cut off like any other."""
    world.bench.tasks.fail = 10_000
    work = asyncio.create_task(reported(world.trigger()))
    await world.until(lambda: world.bench.clock.monotonic() > 100)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
