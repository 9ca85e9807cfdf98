"""`cancel` says what is true outside, and whether anybody carries it out."""

from __future__ import annotations

from airflow_dispatch.cli import cancelling
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.core.record import OutcomeState
from airflow_dispatch.testing.doubles import ManualClock
from tests.unit.supervisor.bench import JOB, Bench, key


async def cancel(bench: Bench, *, seconds: float = 15) -> tuple[Exit, str]:
    """The exit code, and what was said."""
    said: list[str] = []
    code = await cancelling.cancel(
        bench.services("cli"),
        await bench.record(),
        actor="person:ada",
        reason="wrong data",
        seconds=seconds,
        say=said.append,
    )
    return code, "\n".join(said)


async def running() -> Bench:
    """A job whose one object runs."""
    bench = Bench()
    await bench.made()
    await bench.drive()
    return bench


async def test_a_cancel_that_a_supervisor_carries_out_is_told_step_by_step() -> None:
    """Committed, stopping, complete; each told once, and exit code 0."""
    bench = await running()

    class Clock(ManualClock):
        """While the command sleeps, a supervisor works and the run's grace passes."""

        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            await bench.drive()
            bench.cluster.advance(JOB.grace_seconds / 2)

    bench.clock = Clock()
    code, said = await cancel(bench)
    assert code is Exit.OK
    told = [line for line in said.splitlines() if line.startswith("The cancel is")]
    assert [line.split()[3] for line in told] == ["stopping:", "complete:"]
    outcome = (await bench.record()).state.outcome
    assert outcome is not None
    assert (outcome.actor, outcome.reason) == ("person:ada", "wrong data")


async def test_a_cancel_that_nobody_carries_out_says_so() -> None:
    """The cancel is on record all the same, what runs is named, and somebody is asked to look."""
    bench = await running()
    code, said = await cancel(bench)
    assert code is Exit.ATTENTION
    assert f"Object {bench.only().id} was running on memory" in said
    assert "In 15 s nobody has acted on the cancel" in said
    assert "airflow dispatch supervise" in said
    assert (await bench.record()).state.outcome is not None


async def test_an_owner_that_does_nothing_is_no_comfort() -> None:
    """A lease outlives a killed triggerer; only what happens counts."""
    bench = await running()
    await bench.store.claim(key(), "triggerer@host:1", seconds=60)
    code, said = await cancel(bench)
    assert code is Exit.ATTENTION
    assert "nobody has acted on the cancel (attended: by triggerer@host:1" in said


async def test_without_watching_an_owner_is_trusted() -> None:
    """`--wait 0` comes back at once and can only say who should see to it."""
    bench = await running()
    await bench.store.claim(key(), "triggerer@host:1", seconds=60)
    code, said = await cancel(bench, seconds=0)
    assert code is Exit.OK
    assert "It is being seen to: by triggerer@host:1" in said


async def test_a_job_that_has_ended_is_not_cancelled() -> None:
    """Its outcome stands, nothing is committed, and the exit code says that nothing was done."""
    bench = await running()
    bench.cluster.run_ends(bench.only().id)
    before = await bench.drive()
    code, said = await cancel(bench)
    assert (code, await bench.record()) == (Exit.NOTHING_DONE, before)
    assert "has ended already, succeeded" in said


async def test_to_cancel_again_watches_the_first_cancel() -> None:
    """It is no second cancel: who cancelled first, and why, stands."""
    bench = await running()
    await cancel(bench, seconds=0)
    before = await bench.record()
    code, said = await cancel(bench)
    assert await bench.record() == before
    assert code is Exit.ATTENTION
    assert "cancelled by person:ada: wrong data (already, at revision" in said
    outcome = before.state.outcome
    assert outcome is not None
    assert outcome.state is OutcomeState.CANCELLED
