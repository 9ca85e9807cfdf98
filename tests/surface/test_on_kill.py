"""`on_kill`: Airflow calls it for users, for itself, late, after the event, and cuts it short.

The run stops exactly when Airflow's rows say that no try wants it. [follows-the-task]
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from airflow_dispatch.core.record import OutcomeState, Phase
from airflow_dispatch.supervisor import acts
from airflow_dispatch.supervisor.services import Settings
from airflow_dispatch.surface import runtime
from airflow_dispatch.triggers import dispatch
from airflow_dispatch.triggers.dispatch import DispatchTrigger
from tests.surface.world import TASK, World, begin, first_payload


async def supervised(world: World, **changes: Any) -> DispatchTrigger:
    """A trigger whose run had started when Airflow cancelled the trigger's coroutine."""
    trigger = world.trigger(**changes)
    work = begin(first_payload(trigger))
    await world.running()
    for _ in range(100):  # The answer of each call is on record by then.
        await world.turn()
    work.cancel()
    await world.until(work.done)
    return trigger


async def outcome(world: World, generation: int = 1) -> OutcomeState | None:
    """The outcome that is on record."""
    found = (await world.record(generation)).state.outcome
    return None if found is None else found.state


async def killed(world: World, trigger: DispatchTrigger) -> None:
    """Airflow's call of `on_kill`, and everything that it began."""
    await world.finished(begin(trigger.on_kill()))
    await world.until(lambda: not dispatch._kills)


@pytest.mark.parametrize("state", ["failed", "success", "skipped", "removed"])
async def test_a_task_that_was_marked_stops_its_run(world: World, state: str) -> None:
    """The cancel is on record, the run ends, the record settles."""
    trigger = await supervised(world)
    world.bench.row(state=state)
    await killed(world, trigger)
    record = await world.record()
    assert record.state.outcome is not None
    assert str(record.state.outcome) == f"cancelled by airflow: the task instance is {state}"
    assert world.bench.only().phase is Phase.ENDED
    assert record.state.settled_revision
    assert await world.bench.store.owner(record.state.key) is None


async def test_a_kill_that_cut_off_the_cancelling_pass_still_stops_the_run(world: World) -> None:
    """The pass committed the cancel and was cut off before it stopped anything.

    The kill does it.
    """
    trigger = await supervised(world)
    world.bench.row(state="failed")
    record = await world.record()
    services = world.bench.services("cut off")
    await acts.cancel(services, record.state.key, actor="airflow", reason="it is failed")
    await killed(world, trigger)
    assert world.bench.only().phase is Phase.ENDED
    assert (await world.record()).state.settled_revision


async def test_a_kill_in_the_middle_of_an_opening_settles_by_itself(world: World) -> None:
    """The answer of the opening was never filed: it is waited out, and then the record settles."""
    trigger = world.trigger()
    work = begin(first_payload(trigger))
    await world.running()
    work.cancel()
    await world.until(work.done)
    world.bench.row(state="failed")
    await killed(world, trigger)
    assert (await world.record()).state.settled_revision
    assert world.bench.clock.monotonic() > Settings().settle_seconds


async def test_a_reassigned_trigger_leaves_the_run_alone(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Airflow gives the trigger to another triggerer and says it was a user: the rows do not."""
    caplog.set_level(logging.INFO)
    trigger = await supervised(world)
    await killed(world, trigger)
    assert await outcome(world) is None
    assert world.bench.only().phase is Phase.RUNNING
    assert "Airflow lets this trigger go; the task instance is deferred." in caplog.text


@pytest.mark.parametrize("state", ["scheduled", "queued", "running", "up_for_retry", None])
async def test_a_task_on_its_way_keeps_its_run(world: World, state: str | None) -> None:
    """Whatever Airflow does with a task that no one cleared or marked, its run goes on."""
    trigger = await supervised(world)
    world.bench.row(state=state)
    await killed(world, trigger)
    assert await outcome(world) is None


async def test_a_trigger_that_has_fired_stops_nothing(world: World) -> None:
    """After its event the task goes on elsewhere, and a later record is none of its business."""
    trigger = world.trigger()
    work = begin(first_payload(trigger))
    await world.running()
    world.end_all()
    await world.finished(work)
    world.bench.row(state="failed")
    opened = world.opened
    await killed(world, trigger)
    assert world.opened == opened
    assert await outcome(world) is OutcomeState.SUCCEEDED


async def test_a_late_kill_of_a_cleared_try_spares_the_next_one(world: World) -> None:
    """Try 2 may run before the kill of try 1 arrives: only generation 1 is cancelled."""
    first = await supervised(world)
    world.bench.row(ti_id="ti-2", try_number=2, max_tries=1)
    second = world.trigger(trigger_id=2)
    work = begin(first_payload(second))

    async def made() -> bool:
        found = await world.bench.store.latest(TASK)
        return found is not None and found.state.key.generation == 2

    await world.until(made)
    await killed(world, first)
    assert await outcome(world, 1) is OutcomeState.CANCELLED
    assert await outcome(world, 2) is None
    await world.until(lambda: world.end_all() or work.done())
    assert work.result()["outcome"]["generation"] == 2
    assert [held.verdict is not None for held in world.bench.cluster.objects.values()] == [True] * 2


async def test_a_kill_before_the_run_was_found_stops_it_all_the_same(world: World) -> None:
    """Marked while no triggerer lived: the trigger is started and killed at once."""
    await supervised(world)
    world.bench.row(state="failed")
    await killed(world, world.trigger(trigger_id=2))
    assert await outcome(world) is OutcomeState.CANCELLED
    assert world.bench.only().phase is Phase.ENDED


async def test_a_kill_before_there_was_a_record_does_nothing(world: World) -> None:
    """There is nothing to cancel, and nothing is made."""
    trigger = world.trigger()
    world.bench.row(state="failed")
    await killed(world, trigger)
    assert await world.bench.store.latest(TASK) is None


async def test_a_kill_that_airflow_cuts_short_is_carried_out(world: World) -> None:
    """Cancelled at its first awaits, as Airflow does after a second: what was begun goes on."""
    trigger = await supervised(world)
    world.bench.row(state="failed")
    killing = begin(trigger.on_kill())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    killing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await killing
    assert dispatch._kills
    await world.until(lambda: not dispatch._kills)
    assert await outcome(world) is OutcomeState.CANCELLED
    assert world.bench.only().phase is Phase.ENDED
    assert runtime._shared == []


async def test_kills_that_come_together_cancel_once(world: World) -> None:
    """Three at a time: one cancel on record."""
    trigger = await supervised(world)
    world.bench.row(state="failed")
    killing = [begin(trigger.on_kill()) for _ in range(3)]
    for one in killing:
        await world.finished(one)
    assert (await world.bench.kinds()).count("cancelled") == 1


async def test_a_kill_does_not_undo_an_outcome(world: World) -> None:
    """The run had succeeded before the task was marked failed: it stays succeeded."""
    trigger = await supervised(world)
    world.end_all()
    await world.bench.drive("b")
    world.bench.row(state="failed")
    await killed(world, trigger)
    assert await outcome(world) is OutcomeState.SUCCEEDED


async def test_a_kill_without_a_database_is_told_and_left_to_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The daemon or the next trigger does what could not be done."""
    trigger = await supervised(world)
    world.bench.row(state="failed")
    world.bench.tasks.fail = 1
    await killed(world, trigger)
    assert await outcome(world) is None
    assert "the metadata database does not answer" in caplog.text
    assert "`airflow dispatch supervise`" in caplog.text


async def test_a_cleared_task_waits_for_its_old_run(world: World) -> None:
    """The next try's trigger stops the old run first; the new one starts after it ended."""
    await supervised(world)
    world.bench.row(ti_id="ti-2", try_number=2, max_tries=1)
    work = begin(first_payload(world.trigger(trigger_id=2)))
    await world.until(lambda: len(world.bench.cluster.objects) == 2)
    old, new = world.bench.cluster.objects.values()
    await world.until(lambda: new.started_at is not None)
    assert old.phase is Phase.ENDED
    assert old.kill_at is not None
    assert new.started_at is not None
    assert new.started_at >= old.kill_at
    await world.until(lambda: world.end_all() or work.done())
    assert work.result()["outcome"]["generation"] == 2
