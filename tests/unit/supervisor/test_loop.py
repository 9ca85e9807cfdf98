"""Supervision as a whole.

Leases, standing by, outages, stopping, settling in time, the run's output.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from airflow_dispatch import limits
from airflow_dispatch.core.record import Phase, Record
from airflow_dispatch.core.view import CallKind
from airflow_dispatch.ports.store import Lease
from airflow_dispatch.supervisor import acts
from airflow_dispatch.supervisor.loop import supervise
from airflow_dispatch.supervisor.services import Stop
from tests.unit.supervisor.bench import Bench, key

TURNS_MAX = 5_000


@pytest.fixture
def bench() -> Bench:
    """A world in which nothing has happened yet; what is slept passes on the cluster too."""
    bench = Bench()
    bench.clock.on_sleep(bench.cluster.advance)
    return bench


async def until(
    condition: Callable[[], object], meanwhile: Callable[[], None] = lambda: None
) -> None:
    """Let the supervisions go on until the condition holds; `meanwhile` happens at each turn."""
    for _ in range(TURNS_MAX):
        if condition():
            return
        meanwhile()
        await asyncio.sleep(0)
    raise AssertionError("it never came about")


def supervision(bench: Bench, owner: str, stop: Stop | None = None) -> asyncio.Task[Record | None]:
    """One supervisor at work."""
    return asyncio.create_task(supervise(bench.services(owner), key(), stop=stop or Stop()))


def runs(bench: Bench) -> bool:
    """Whether something runs."""
    return any(held.phase is Phase.RUNNING for held in bench.cluster.objects.values())


async def finished(bench: Bench, task: asyncio.Task[Record | None]) -> Record:
    """The record that a supervision ended with; time passes until then."""
    for _ in range(TURNS_MAX):
        if task.done():
            break
        await asyncio.sleep(0)
        bench.pass_time(0.1)
    record = await task
    assert record is not None
    return record


async def test_a_supervision_ends_with_a_settled_record(bench: Bench) -> None:
    """It returns the outcome after settling, with the story told and the lease given back."""
    await bench.made()
    task = supervision(bench, "a")
    await until(lambda: runs(bench))
    bench.cluster.run_ends(bench.only().id)
    record = await finished(bench, task)
    assert record.state.settled_revision
    assert "Outcome: succeeded" in bench.lines.text
    assert await bench.store.owner(key()) is None


async def test_one_works_while_the_other_stands_by(bench: Bench) -> None:
    """Two supervisors of one job: one start, one open, and both return the outcome."""
    await bench.made()
    tasks = [supervision(bench, owner) for owner in ("a", "b")]
    await until(lambda: runs(bench))
    bench.cluster.run_ends(bench.only().id)
    records = [await finished(bench, task) for task in tasks]
    assert {str(r.state.outcome) for r in records} == {"succeeded"}
    kinds = [kind for kind, _ in bench.cluster.calls]
    assert (kinds.count(CallKind.START), kinds.count(CallKind.OPEN)) == (1, 1)
    assert "standing by" in bench.lines.text


async def test_a_dead_owner_is_succeeded_after_its_lease(bench: Bench) -> None:
    """Power cut of the owner: the one who stood by takes over the very same run."""
    await bench.made()
    first = supervision(bench, "a")
    await until(lambda: runs(bench))
    first.cancel()
    await asyncio.wait([first])
    second = supervision(bench, "b")
    await until(lambda: "Took over from a" in bench.lines.text)
    bench.cluster.run_ends(bench.only().id)
    assert str((await finished(bench, second)).state.outcome) == "succeeded"


async def test_a_lease_is_kept_by_renewal(bench: Bench) -> None:
    """However long a run takes, its owner keeps one epoch: nobody has taken the lease meanwhile."""
    await bench.made()
    task = supervision(bench, "a")
    await until(lambda: runs(bench))
    for _ in range(30):
        bench.pass_time(10)
        for _ in range(50):
            await asyncio.sleep(0)
    lease = await bench.store.owner(key())
    assert lease is not None
    assert lease.owner == "a"
    bench.cluster.run_ends(bench.only().id)
    await finished(bench, task)
    later = await bench.store.claim(key(), "b", seconds=60)
    assert isinstance(later, Lease)
    assert later.epoch == 2


async def test_whoever_comes_after_a_silent_owner_says_so(bench: Bench) -> None:
    """A supervisor that finds the lease expired took over, too, and the story tells it."""
    await bench.made()
    first = supervision(bench, "a")
    await until(lambda: runs(bench))
    first.cancel()
    await asyncio.wait([first])
    bench.pass_time(100)
    second = supervision(bench, "b")
    await until(lambda: "Took over: whoever looked after this job" in bench.lines.text)
    bench.cluster.run_ends(bench.only().id)
    await finished(bench, second)


async def test_outages_are_waited_for(bench: Bench) -> None:
    """Neither a silent cluster nor a silent database fails the job.

    The story says that it goes on.
    """
    await bench.made()
    task = supervision(bench, "a")
    await until(lambda: runs(bench))
    bench.cluster.fail_finds(3)
    bench.tasks.fail = 2
    await until(lambda: "what runs goes on" in bench.lines.text, lambda: bench.pass_time(1))
    bench.cluster.run_ends(bench.only().id)
    assert str((await finished(bench, task)).state.outcome) == "succeeded"


async def test_a_stop_leaves_the_run_alone(bench: Bench) -> None:
    """Asked to stop, a supervision ends after its step; the run goes on and the lease is free."""
    await bench.made()
    stop = Stop()
    task = supervision(bench, "a", stop)
    await until(lambda: runs(bench))
    stop.requested = True
    await until(task.done, lambda: bench.pass_time(1))
    assert await task is None
    assert runs(bench)
    assert await bench.store.owner(key()) is None


async def test_a_task_does_not_wait_for_a_person(bench: Bench) -> None:
    """A foreign object keeps the record open, not the task from its outcome."""
    await bench.made()
    task = supervision(bench, "a")
    await until(lambda: runs(bench))
    ours = bench.only()
    bench.cluster.put("stranger", replace(ours.mark, tag="not ours"), ours.job)
    bench.cluster.run_ends(ours.id)
    record = await finished(bench, task)
    assert str(record.state.outcome) == "succeeded"
    assert not record.state.settled_revision


async def test_the_output_comes_before_the_outcome(bench: Bench) -> None:
    """Whoever reads that the run failed finds why above, not below."""
    await bench.made()
    task = supervision(bench, "a")
    await until(lambda: runs(bench))
    bench.cluster.writes(bench.only().id, "Traceback: it broke\n")
    bench.cluster.run_ends(bench.only().id, 1)
    await finished(bench, task)
    story = [text for _, text in bench.lines.told]
    assert bench.lines.written == "Traceback: it broke\n"
    outcome = next(n for n, text in enumerate(story) if text.startswith("Outcome: failed"))
    assert bench.lines.told_before_output <= outcome


async def test_output_that_is_told_again_says_so(bench: Bench) -> None:
    """A supervisor that takes over tells the output from its start, and that it is a repetition."""
    await bench.made()
    first = supervision(bench, "a")
    await until(lambda: runs(bench))
    bench.cluster.writes(bench.only().id, "epoch 1\n")
    await until(lambda: bench.lines.written, lambda: bench.pass_time(1))
    first.cancel()
    await asyncio.wait([first])
    bench.pass_time(100)
    second = supervision(bench, "b")
    await until(lambda: bench.lines.written.count("epoch 1") == 2, lambda: bench.pass_time(1))
    bench.cluster.run_ends(bench.only().id)
    await finished(bench, second)
    assert bench.lines.text.count("What the run wrote so far, from its start:") == 1


async def test_a_cancel_by_a_person_is_told_before_its_stops(bench: Bench) -> None:
    """The task's log names who cancelled and why, once, before anything is stopped."""
    await bench.made()
    task = supervision(bench, "a")
    await until(lambda: runs(bench))
    await acts.cancel(bench.services("cli"), key(), actor="person:somebody", reason="enough")
    await finished(bench, task)
    text = bench.lines.text
    assert text.count("Cancelled by person:somebody: enough") == 1
    assert text.index("Cancelled by person:somebody") < text.index("Stopping everything")


async def test_the_output_is_told_once(bench: Bench) -> None:
    """What the run writes reaches the journal while it runs, each piece once."""
    await bench.made()
    await bench.drive()
    task = supervision(bench, "a")
    bench.cluster.writes(bench.only().id, "epoch 1\n")
    await until(lambda: "epoch 1" in bench.lines.written, lambda: bench.pass_time(1))
    bench.cluster.writes(bench.only().id, "epoch 2 ✓\n")
    bench.cluster.run_ends(bench.only().id)
    await finished(bench, task)
    assert bench.lines.written == "epoch 1\nepoch 2 ✓\n"


async def test_all_output_is_told_before_the_end(bench: Bench) -> None:
    """A run that wrote more than one pass may tell, and ended, is told to its last line."""
    await bench.made()
    await bench.drive()
    written = "".join(f"line {n}\n" for n in range(3 * limits.OUTPUT_LINES_PER_PASS)) + "the end"
    bench.cluster.writes(bench.only().id, written)
    bench.cluster.run_ends(bench.only().id, 1)
    await finished(bench, supervision(bench, "a"))
    assert bench.lines.written == written


async def test_output_of_many_lines_stalls_nobody(bench: Bench) -> None:
    """Short lines are told a few at a time, up to a number of them; then it is told where more is.

    Airflow takes a triggerer whose event loop was held for half a minute for dead.
    """
    await bench.made()
    await bench.drive()
    bench.cluster.writes(bench.only().id, "\n" * (limits.OUTPUT_LINES_MAX + 5))
    bench.cluster.run_ends(bench.only().id)
    await finished(bench, supervision(bench, "a"))
    told = [piece.count("\n") for piece in bench.lines.pieces]
    assert max(told) <= limits.OUTPUT_LINES_AT_ONCE
    assert sum(told) == limits.OUTPUT_LINES_MAX
    assert "The output is longer than" in bench.lines.text
