"""The trigger against the shipped doubles: what it makes, waits for, reports, and never does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_dispatch.core.record import OutcomeState
from airflow_dispatch.errors import ClusterUnavailable
from airflow_dispatch.surface import event, runtime
from airflow_dispatch.triggers.dispatch import DispatchTrigger
from tests.surface.world import JOB, TASK, World, begin


async def reported(trigger: DispatchTrigger) -> list[Any]:
    """The payloads of all events that the trigger yields, after which it has returned."""
    return [fired.payload async for fired in trigger.run()]


async def test_a_run_is_supervised_to_its_event(world: World) -> None:
    """Record, run, outcome on record, one event with the run's own result."""
    work = begin(reported(world.trigger()))
    await world.running()
    world.bench.cluster.run_ends(world.bench.only().id, result='{"accuracy": 0.97}')
    (payload,) = await world.finished(work)
    outcome = (await world.record()).state.outcome
    assert outcome is not None
    assert outcome.state is OutcomeState.SUCCEEDED
    assert payload["outcome"]["state"] == "succeeded"
    assert json.loads(payload["result"]) == {"accuracy": 0.97}
    assert (payload["outcome"]["queue_seconds"] or 0) >= 0
    assert world.bench.only().id == payload["outcome"]["object"]
    assert (world.closed, runtime._shared) == (1, [])
    assert json.loads(json.dumps(payload)) == payload


async def test_a_failed_run_is_reported_as_such(world: World) -> None:
    """The exit code is in the event; no result is read."""
    work = begin(reported(world.trigger()))
    await world.running()
    world.bench.cluster.run_ends(world.bench.only().id, 3, result="{}")
    (payload,) = await world.finished(work)
    assert (payload["outcome"]["cause"], payload["outcome"]["exit_code"]) == ("exit", 3)
    assert payload["result"] is None


async def test_a_trigger_started_again_takes_the_same_run_up(world: World) -> None:
    """The triggerer dies; the next one finds the record and the run, and makes nothing new."""
    first = begin(reported(world.trigger()))
    await world.running()
    first.cancel()
    await world.until(first.done)
    second = begin(reported(world.trigger(trigger_id=2)))
    await world.until(lambda: world.opened > 3)
    world.bench.cluster.run_ends(world.bench.only().id)
    (payload,) = await world.finished(second)
    assert payload["outcome"]["state"] == "succeeded"
    assert payload["outcome"]["generation"] == 1


async def test_two_triggers_of_one_try_report_one_run(world: World) -> None:
    """Reassigned while both are alive: one supervises, one stands by, both report the outcome."""
    works = [begin(reported(world.trigger(trigger_id=n))) for n in (1, 2)]
    await world.running()
    world.bench.cluster.run_ends(world.bench.only().id)
    payloads = [await world.finished(work) for work in works]
    assert payloads[0] == payloads[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"ti_id": "ti-2", "try_number": 2},
        {"try_number": 2},
        {"state": "failed"},
        {"state": None},
        {"ti_id": None},
        {"dag_run_id": None, "ti_id": None},
    ],
    ids=str,
)
async def test_a_try_that_is_not_current_makes_nothing(
    world: World, changes: dict[str, Any]
) -> None:
    """No event, no record, no call: a trigger may be started long after its try is over."""
    trigger = world.trigger()
    world.bench.row(**changes)
    assert await world.finished(begin(reported(trigger))) == []
    assert await world.bench.store.latest(TASK) is None
    assert world.bench.cluster.calls == []


async def test_a_row_that_is_late_is_looked_at_twice(world: World) -> None:
    """One look that shows another try does not end the trigger of the current one."""
    trigger = world.trigger()
    current = world.bench.tasks.rows[TASK]
    world.bench.row(state=None)
    work = begin(reported(trigger))
    await world.until(lambda: world.bench.clock.monotonic() > 0)
    world.bench.tasks.set(TASK, current)
    await world.running()
    world.bench.cluster.run_ends(world.bench.only().id)
    assert len(await world.finished(work)) == 1


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (replace(JOB, cluster="nowhere"), "no Airflow connection 'nowhere'"),
        (replace(JOB, cluster="http_default"), "has the type 'http', which is no cluster"),
        (replace(JOB, image="i"), "the memory cluster runs no containers"),
    ],
    ids=["unknown", "wrong type", "field that the cluster cannot honour"],
)
async def test_a_refusal_is_reported_without_a_record(world: World, job: Any, words: str) -> None:
    """What cannot be launched is said in one sentence; nothing is made."""
    (payload,) = await world.finished(begin(reported(world.trigger(job))))
    assert words in payload["refused"]
    assert await world.bench.store.latest(TASK) is None
    assert world.bench.cluster.calls == []


async def test_a_connection_is_called_missing_only_after_a_second_look(world: World) -> None:
    """Airflow says "not defined" as well when it could not ask."""
    del world.connections["memory"]
    work = begin(reported(world.trigger()))
    await world.until(lambda: world.reads > 1)
    world.connections["memory"] = "memory"
    await world.running()
    world.bench.cluster.run_ends(world.bench.only().id)
    (payload,) = await world.finished(work)
    assert payload["outcome"]["state"] == "succeeded"


async def test_a_connection_that_goes_missing_later_fails_no_task(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Once there is a record, a missing connection is waited for: the run goes on meanwhile."""
    first = begin(reported(world.trigger()))
    await world.running()
    first.cancel()
    await world.until(first.done)
    del world.connections["memory"]
    second = begin(reported(world.trigger(trigger_id=2)))
    await world.until(lambda: "outage 3" in caplog.text)
    assert not second.done()
    world.connections["memory"] = "memory"
    world.bench.cluster.run_ends(world.bench.only().id)
    (payload,) = await world.finished(second)
    assert payload["outcome"]["state"] == "succeeded"


async def test_outages_are_waited_for_and_told(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A database and a cluster that do not answer fail no task."""
    world.bench.tasks.fail = 3
    world.bench.cluster.fail_finds(3)
    work = begin(reported(world.trigger()))
    await world.running()
    world.bench.cluster.run_ends(world.bench.only().id)
    assert len(await world.finished(work)) == 1
    assert "the metadata database does not answer (looking again in" in caplog.text


async def test_a_result_that_cannot_be_read_is_reported_as_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome stands; the event says why there is no result."""

    async def unreadable(*_: object) -> str:
        raise ClusterUnavailable("the disk is gone")

    monkeypatch.setattr(world.bench.cluster, "read_result", unreadable)
    work = begin(reported(world.trigger()))
    await world.running()
    world.bench.cluster.run_ends(world.bench.only().id)
    (payload,) = await world.finished(work)
    assert payload["outcome"]["state"] == "succeeded"
    assert payload["result_lost"] == "the disk is gone"


async def test_a_deadline_that_passed_cancels_the_run(world: World) -> None:
    """Airflow does not enforce execution_timeout on a deferred task; the trigger does."""
    work = begin(reported(world.trigger(deadline="2026-01-01T00:00:00+00:00")))
    (payload,) = await world.finished(work)
    assert payload["outcome"]["deadline_passed"]
    outcome = (await world.record()).state.outcome
    assert outcome is not None
    assert (outcome.state, outcome.reason) == (OutcomeState.CANCELLED, event.DEADLINE)


async def test_a_trigger_cut_off_anywhere_lets_the_cancellation_through(
    monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    """Cancelled at every one of its awaits: no event, and the lease is free.

    The next trigger finishes what is there: one object, started once.
    """
    for turns in range(10_000):
        world = World()
        world.install(monkeypatch)
        if await _cut(world, turns):
            assert turns > 60
            return
        last = begin(reported(world.trigger(trigger_id=2)))
        await world.until(lambda: world.end_all() or last.done())  # noqa: B023 - used at once
        assert last.result()[0]["outcome"]["state"] == "succeeded"
        assert len(world.bench.cluster.objects) == 1
    raise AssertionError("the trigger never reported")


async def _cut(world: World, turns: int) -> bool:
    """Start a trigger and cancel it after that many turns; whether it had reported by then."""
    work = begin(reported(world.trigger()))
    for _ in range(turns):
        await world.turn()
        world.end_all()
    if work.done():
        return True
    work.cancel()
    await world.until(work.done)
    assert work.cancelled(), f"cut after {turns} turns: {work}"
    made = await world.bench.store.latest(TASK)
    if made is not None:
        assert await world.bench.store.owner(made.state.key) is None
    return False
