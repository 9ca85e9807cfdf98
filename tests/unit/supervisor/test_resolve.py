"""Which record a try supervises: made, found, adopted, or the next generation after the old run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_dispatch.core.record import OnClear, OutcomeState, Phase
from airflow_dispatch.core.steps import Wait, WaitKind
from airflow_dispatch.errors import JobRefused
from airflow_dispatch.supervisor.resolve import NotCurrent, Try, resolve
from tests.unit.supervisor.bench import JOB, TASK, Bench


@pytest.fixture
def bench() -> Bench:
    """A world in which nothing has happened yet."""
    return Bench()


def phase(bench: Bench, generation: int) -> Phase:
    """Where the one object of that try is."""
    (held,) = (o for o in bench.cluster.objects.values() if o.mark.generation == generation)
    return held.phase


async def test_a_second_trigger_of_one_try_finds_the_same_record(bench: Bench) -> None:
    """Two workers or a restart: one key, one record."""
    assert (await bench.made()).state.key == (await bench.made()).state.key


async def test_a_stale_trigger_makes_nothing(bench: Bench) -> None:
    """A trigger of a try that is over launches nothing and makes no record.

    [follows-the-task]
    """
    bench.row(try_number=2, ti_id="ti-2")
    with pytest.raises(NotCurrent, match="nothing was launched"):
        await resolve(bench.services(), Try(TASK, "ti-1", 1), JOB)
    assert await bench.store.latest(TASK) is None


async def test_a_marked_task_gets_no_run_from_its_old_trigger(bench: Bench) -> None:
    """The triggerer restarts a trigger whose task is failed already: nothing is made."""
    bench.row(state="failed")
    with pytest.raises(NotCurrent):
        await bench.made()
    assert await bench.store.latest(TASK) is None


async def test_what_the_cluster_cannot_do_is_refused_by_name(bench: Bench) -> None:
    """No record, and the field in the message."""
    with pytest.raises(JobRefused, match="image="):
        await bench.made(job=replace(JOB, image="pytorch"))
    assert await bench.store.latest(TASK) is None


async def test_a_clear_makes_a_new_generation_that_waits(bench: Bench) -> None:
    """The old run is cancelled, and the new gate stays shut until the old one has ended.

    [no-overlap]
    """
    await bench.made()
    await bench.drive()
    bench.row(ti_id="ti-2", try_number=2, max_tries=1, clear_number=1)
    record = await bench.made()
    assert (record.state.key.generation, record.state.predecessor) == (2, 1)
    await bench.drive(generation=2)
    passed = await bench.one(generation=2)
    assert isinstance(passed.step, Wait)
    assert passed.step.waits[0].kind is WaitKind.PREDECESSOR
    assert phase(bench, 2) is Phase.GATED
    await bench.drive(generation=1)
    assert phase(bench, 1) is Phase.STOPPING
    bench.pass_time(15)
    await bench.drive(generation=1)
    await bench.drive(generation=2)
    assert phase(bench, 2) is Phase.RUNNING
    assert phase(bench, 1) is Phase.ENDED


async def test_two_clears_in_a_row_still_wait_for_the_first_run(bench: Bench) -> None:
    """Try 3 waits for try 1, though try 2 never launched anything.

    [no-overlap]
    """
    await bench.made()
    await bench.drive()
    for number in (2, 3):
        bench.row(
            ti_id=f"ti-{number}", try_number=number, max_tries=number - 1, clear_number=number - 1
        )
        await bench.made()
    await bench.drive(generation=2)
    await bench.drive(generation=3)
    assert phase(bench, 3) is Phase.GATED
    await bench.drive(generation=1)
    bench.pass_time(15)
    for generation in (1, 2, 3):
        await bench.drive(generation=generation)
    assert phase(bench, 3) is Phase.RUNNING


async def test_an_orphan_reset_adopts_the_run(bench: Bench) -> None:
    """Another id and try, no clear: the same record goes on, bound to the new try."""
    await bench.made()
    await bench.drive()
    bench.row(ti_id="ti-2", try_number=2)
    record = await bench.made()
    assert record.state.key.generation == 1
    assert (record.state.binding.ti_id, record.state.binding.try_number) == ("ti-2", 2)
    await bench.drive()
    assert bench.only().phase is Phase.RUNNING


async def test_a_success_whose_event_was_lost_is_adopted(bench: Bench) -> None:
    """Finished training is never repeated because nobody heard of its end."""
    await bench.made()
    await bench.drive()
    bench.cluster.run_ends(bench.only().id)
    await bench.drive()
    bench.row(ti_id="ti-2", try_number=2)
    assert (await bench.made()).state.key.generation == 1


async def test_a_retry_after_failure_is_a_new_generation(bench: Bench) -> None:
    """The failed outcome stands, and the next try gets a record of its own."""
    await bench.made()
    await bench.drive()
    bench.cluster.run_ends(bench.only().id, 1)
    await bench.drive()
    bench.row(ti_id="ti-2", try_number=2)
    record = await bench.made()
    assert record.state.key.generation == 2
    first = (await bench.record(1)).state.outcome
    assert first is not None
    assert first.state is OutcomeState.FAILED


async def test_on_clear_reattach_adopts_an_open_run(bench: Bench) -> None:
    """A clear with on_clear="reattach" goes on with what runs."""
    await bench.made(on_clear=OnClear.REATTACH)
    await bench.drive()
    bench.row(ti_id="ti-2", try_number=2, max_tries=1, clear_number=1)
    record = await bench.made(on_clear=OnClear.REATTACH)
    assert record.state.key.generation == 1
    assert record.state.outcome is None
