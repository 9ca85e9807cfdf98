"""The supervisor's passes against a store and a cluster in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_dispatch.core.causes import CauseKind
from airflow_dispatch.core.record import OutcomeState, Phase, Record
from airflow_dispatch.core.steps import Rest, Wait, WaitKind
from airflow_dispatch.core.view import CallKind
from airflow_dispatch.errors import ClusterMismatch, ClusterUnavailable
from airflow_dispatch.supervisor import acts, passes
from airflow_dispatch.testing.memory_cluster import MemoryCluster
from tests.unit.supervisor.bench import JOB, Bench, key


@pytest.fixture
def bench() -> Bench:
    """A world in which nothing has happened yet."""
    return Bench()


def asked(bench: Bench, kind: CallKind) -> int:
    """How often the cluster was sent calls of that kind."""
    return sum(made is kind for made, _ in bench.cluster.calls)


def outcome(record: Record) -> str:
    """The outcome in words."""
    return str(record.state.outcome)


async def test_a_run_goes_from_record_to_settled(bench: Bench) -> None:
    """Authorize, attempt, choose, open, run, conclude, withdraw, settle: one object, one start."""
    await bench.made()
    await bench.drive()
    assert bench.only().phase is Phase.RUNNING
    bench.cluster.run_ends(bench.only().id)
    record = await bench.drive()
    assert outcome(record) == "succeeded"
    assert record.state.settled_revision
    assert (asked(bench, CallKind.START), asked(bench, CallKind.OPEN)) == (1, 1)
    assert isinstance((await bench.one()).step, Rest)


async def test_a_quiet_job_commits_nothing(bench: Bench) -> None:
    """While a run goes on and nothing changes, passes leave no trace in the record."""
    await bench.made()
    before = (await bench.drive()).revision
    for _ in range(5):
        bench.pass_time(5)
        await bench.one()
    assert (await bench.record()).revision == before


async def test_the_gate_opens_only_in_a_later_find(bench: Bench) -> None:
    """The first pass starts and opens nothing: the object must be seen, and chosen, first.

    [authorized-only]
    """
    await bench.made()
    await bench.one()
    assert (asked(bench, CallKind.START), asked(bench, CallKind.OPEN)) == (1, 0)
    assert bench.only().phase is Phase.GATED


async def test_a_lost_start_reply_leaves_one_run(bench: Bench) -> None:
    """The start landed and nobody heard: the object is found, and no second start is made."""
    bench.cluster.lose_reply("start")
    await bench.made()
    await bench.drive()
    assert asked(bench, CallKind.START) == 1
    assert bench.only().phase is Phase.RUNNING


async def test_a_late_start_becomes_a_duplicate_that_never_runs(bench: Bench) -> None:
    """Attempt 1 lands after attempt 2 was opened: it is retired and stopped, and never ran.

    [authorized-only]
    """
    bench.cluster.hold_back("start")
    await bench.made()
    await bench.drive()
    bench.cluster.land()
    await bench.drive()
    first = next(o for o in bench.cluster.objects.values() if o.mark.attempt == 1)
    second = next(o for o in bench.cluster.objects.values() if o.mark.attempt == 2)
    assert second.phase is Phase.RUNNING
    assert (first.phase, first.started_at) == (Phase.ENDED, None)


async def test_twins_of_one_attempt_leave_one_run(bench: Bench) -> None:
    """One start call lands twice: one twin is chosen, the other retired before anything opens."""
    bench.cluster.land_twice("start")
    await bench.made()
    await bench.drive()
    phases = sorted(held.phase.value for held in bench.cluster.objects.values())
    assert phases == ["ended", "running"]


async def test_three_unanswered_starts_wait_until_they_are_over(bench: Bench) -> None:
    """No fourth call; when none can land any more, they never landed and the launch failed."""
    for _ in range(3):
        bench.cluster.hold_back("start")
    await bench.made()
    await bench.drive()
    passed = await bench.one()
    assert asked(bench, CallKind.START) == 3
    assert isinstance(passed.step, Wait)
    assert passed.step.waits[0].kind is WaitKind.ATTEMPTS
    bench.pass_time(120)
    bench.cluster.land()
    record = await bench.drive()
    assert record.state.outcome is not None
    assert record.state.outcome.cause is not None
    assert record.state.outcome.cause.kind is CauseKind.LAUNCH_FAILED
    assert record.state.settled_revision


async def test_a_refusal_for_good_fails_the_job(bench: Bench) -> None:
    """The cluster's words are the cause, and nothing is tried again."""
    bench.cluster.refuse_next("start", "no such account", permanent=True)
    await bench.made()
    record = await bench.drive()
    assert outcome(record) == "failed: rejected: no such account"
    assert asked(bench, CallKind.START) == 1


async def test_a_refusal_for_now_is_tried_again_later(bench: Bench) -> None:
    """It backs off, does not use up the attempts, and then runs."""
    bench.cluster.refuse_next("start", "try later", permanent=False)
    await bench.made()
    await bench.drive()
    assert asked(bench, CallKind.START) == 1
    bench.pass_time(30)
    await bench.drive()
    assert bench.only().phase is Phase.RUNNING


async def test_a_run_that_fails_carries_its_cause(bench: Bench) -> None:
    """Exit code 3 is failed(exit(3))."""
    await bench.made()
    await bench.drive()
    bench.cluster.run_ends(bench.only().id, 3)
    assert outcome(await bench.drive()) == "failed: exit(3)"


async def test_a_lost_node_is_cleaned_up_before_it_settles(bench: Bench) -> None:
    """The verdict fails the job at once; what still runs is stopped before anything settles.

    [no-overlap]
    """
    await bench.made()
    await bench.drive()
    bench.cluster.node_lost(bench.only().id, idle=False)
    record = await bench.drive()
    assert outcome(record).startswith("failed: node_lost")
    assert not record.state.settled_revision
    bench.pass_time(30)
    record = await bench.drive()
    assert record.state.settled_revision


async def test_a_vanished_run_waits_for_its_time_limit(bench: Bench) -> None:
    """Absence is no end: the outcome comes when the run's own limit and bounds have passed.

    [evidence-only]
    """
    await bench.made()
    await bench.drive()
    bench.cluster.vanish(bench.only().id)
    record = await bench.drive()
    assert record.state.outcome is None
    passed = await bench.one()
    assert isinstance(passed.step, Wait)
    assert passed.step.waits[0].kind is WaitKind.LOST
    bench.pass_time(700)
    record = await bench.drive()
    assert outcome(record).startswith("failed: unknown")
    assert record.state.settled_revision


async def test_a_cancel_stops_a_run_and_completes_its_receipt(bench: Bench) -> None:
    """Two rounds of stopping everything, a withdrawn permit, and then settled.

    [cancel-final]
    """
    await bench.made()
    await bench.drive()
    await acts.cancel(bench.services(), key(), actor="person:somebody", reason="enough")
    record = await bench.drive()
    assert bench.only().phase is Phase.STOPPING
    assert not record.state.settled_revision
    bench.pass_time(15)
    record = await bench.drive()
    assert outcome(record) == "cancelled by person:somebody: enough"
    assert record.state.settled_revision
    assert asked(bench, CallKind.STOP_JOB) == 2


async def test_nothing_is_launched_after_a_cancel(bench: Bench) -> None:
    """A record cancelled before its first pass settles without a single start.

    [cancel-final]
    """
    await bench.made()
    await acts.cancel(bench.services(), key(), actor="person:somebody", reason="never mind")
    record = await bench.drive()
    assert record.state.settled_revision
    assert asked(bench, CallKind.START) == 0


async def test_a_cancel_between_opening_and_sending_keeps_the_gate_shut(bench: Bench) -> None:
    """The re-read before an Open sees the cancel: it is filed as not sent.

    [cancel-final]
    """
    await bench.made()
    await bench.one()
    services = bench.services("slow")
    load, loads = bench.store.load, 0

    async def load_after_cancel(wanted: object) -> Record | None:
        nonlocal loads
        loads += 1
        if loads == 2:  # The first load begins the pass, the second one is the re-read.
            await acts.cancel(
                bench.services("person"), key(), actor="person:somebody", reason="stop"
            )
        return await load(key())

    bench.store.load = load_after_cancel  # type: ignore[method-assign,assignment]  # the test's own gate

    await passes.one(services, key(), lease=None, pace=passes.Pace())
    bench.store.load = load  # type: ignore[method-assign]  # back again
    assert asked(bench, CallKind.OPEN) == 0
    record = await bench.drive()
    assert record.state.settled_revision
    assert bench.only().started_at is None


async def test_a_decision_on_an_old_view_is_refused(bench: Bench) -> None:
    """Two supervisors look at once; the slower one's decision conflicts and it looks again.

    [no-lock-needed]
    """
    await bench.made()
    await bench.one("a")
    find = bench.cluster.find

    async def find_after_other(tasks: object) -> object:
        snapshot = await find((key().task,))
        bench.cluster.find = find  # type: ignore[method-assign]  # only once
        await bench.drive("b")
        return snapshot

    bench.cluster.find = find_after_other  # type: ignore[method-assign,assignment]  # a slow look
    passed = await bench.one("a")
    assert passed.moved
    assert asked(bench, CallKind.OPEN) == 1


async def test_an_outage_raises_and_changes_nothing(bench: Bench) -> None:
    """A failed Find is an error, never a view: no commit follows from it.

    [evidence-only]
    """
    await bench.made()
    before = (await bench.drive()).revision
    bench.cluster.fail_finds(2)
    with pytest.raises(ClusterUnavailable):
        await bench.one()
    assert (await bench.record()).revision == before


async def test_another_cluster_is_no_view(bench: Bench) -> None:
    """A Find that answers with another fingerprint is refused, whatever it shows."""
    await bench.made()
    await bench.drive()
    bench.cluster.fingerprint = "memory:2"
    with pytest.raises(ClusterMismatch, match="goes on unseen"):
        await bench.one()
    assert (await bench.record()).state.outcome is None


async def test_late_evidence_reopens_a_settled_record(bench: Bench) -> None:
    """A start that lands after settlement is taken in, stopped, and settled again.

    [nothing-forgotten]
    """
    await bench.made()
    await bench.drive()
    first = bench.only()
    bench.cluster.run_ends(first.id)
    assert (await bench.drive()).state.settled_revision
    bench.cluster.put("late", first.mark, first.job)
    record = await bench.drive()
    late = record.state.object("late")
    assert late is not None
    assert late.ended
    assert record.state.settled_revision
    assert outcome(record) == "succeeded"


async def test_a_foreign_object_blocks_and_is_not_touched(bench: Bench) -> None:
    """Our mark with a tag we never made: shown, waited for, not stopped when our run ends well."""
    await bench.made()
    await bench.drive()
    ours = bench.only()
    from dataclasses import replace

    bench.cluster.put("stranger", replace(ours.mark, tag="not ours"), ours.job)
    bench.cluster.run_ends(ours.id)
    record = await bench.drive()
    assert outcome(record) == "succeeded"
    assert not record.state.settled_revision
    assert bench.cluster.objects["stranger"].phase is Phase.GATED


async def test_a_run_opened_by_hand_is_supervised_or_stopped(bench: Bench) -> None:
    """Opened outside while it might be opened: supervised, and always on record."""
    await bench.made()
    await bench.one()
    held = bench.only()
    held.phase, held.started_at = Phase.RUNNING, bench.cluster.now
    await bench.drive()
    assert "opened_outside" in await bench.kinds()
    bench.cluster.run_ends(held.id)
    assert (await bench.drive()).state.outcome is not None


@pytest.mark.parametrize("crash_after", range(1, 14))
async def test_a_crash_at_any_commit_ends_the_same(bench: Bench, crash_after: int) -> None:
    """Whichever commit a supervisor dies after.

    The next one carries on to one run and a settled record.

    [no-state-outside]
    """
    await bench.made()
    commit, left = bench.store.commit, crash_after

    class Dead(BaseException):
        """A power cut."""

    async def commit_then_die(*args: object, **words: object) -> object:
        nonlocal left
        stored = await commit(*args, **words)  # type: ignore[arg-type]  # passed through
        left -= 1
        if not left:
            raise Dead
        return stored

    bench.store.commit = commit_then_die  # type: ignore[method-assign,assignment]  # the power cut
    try:
        await bench.drive("first")
        if bench.only().phase is Phase.RUNNING:
            bench.cluster.run_ends(bench.only().id)
        await bench.drive("first")
    except Dead:
        pass
    bench.store.commit = commit  # type: ignore[method-assign]  # power is back
    bench.pass_time(120)
    await bench.drive("second")
    for held in list(bench.cluster.objects.values()):
        if held.phase is Phase.RUNNING:
            bench.cluster.run_ends(held.id)
    bench.pass_time(120)
    record = await bench.drive("second")
    assert outcome(record) == "succeeded"
    assert record.state.settled_revision
    assert sum(held.started_at is not None for held in bench.cluster.objects.values()) == 1


async def test_airflow_that_wants_no_run_cancels_it(bench: Bench) -> None:
    """The row says failed: the very next pass commits the cancel and stops.

    [follows-the-task]
    """
    await bench.made()
    await bench.drive()
    bench.row(state="failed")
    record = await bench.drive()
    assert record.state.outcome is not None
    assert record.state.outcome.state is OutcomeState.CANCELLED
    assert record.state.outcome.actor == "airflow"
    assert bench.only().phase is Phase.STOPPING


async def test_many_judgements_in_a_row_end_the_pass_and_not_the_job(bench: Bench) -> None:
    """Forty objects vanish at once: one pass judges as many as it may, the next one the rest."""
    await bench.made()
    await bench.drive()
    first = bench.only()
    for number in range(40):
        bench.cluster.put(f"late-{number}", first.mark, first.job)
    await bench.one()
    for number in range(40):
        bench.cluster.vanish(f"late-{number}")
    await bench.drive()
    bench.cluster.run_ends(first.id)
    assert (await bench.drive()).state.settled_revision


async def test_stops_without_effect_are_repeated_ever_more_rarely(bench: Bench) -> None:
    """A stop that nobody answers goes out again after 10 s, 20 s, 40 s, not in every pass."""
    await bench.made()
    await bench.drive()
    await acts.cancel(bench.services(), key(), actor="person:somebody", reason="enough")
    for _ in range(20):
        bench.cluster.hold_back("stop_job")
        bench.cluster.hold_back("stop")
    made = []
    for _ in range(100):
        await bench.drive()
        made.append(asked(bench, CallKind.STOP_JOB))
        bench.pass_time(1)
    assert made[-1] in (4, 5)


async def test_a_silent_cluster_of_an_earlier_try_holds_up_the_gate_only(bench: Bench) -> None:
    """The earlier try is elsewhere and silent: a run that was opened is followed to its end."""
    await bench.made()
    elsewhere = MemoryCluster("elsewhere", fingerprint="elsewhere:1")
    bench.others["elsewhere"] = elsewhere
    bench.row(ti_id="ti-2", try_number=2, max_tries=1)
    await bench.made(job=replace(JOB, cluster="elsewhere"))
    await bench.drive(generation=1)
    await bench.drive(generation=2)
    (held,) = elsewhere.objects.values()
    assert held.phase is Phase.RUNNING
    bench.cluster.fail_finds(1_000)
    elsewhere.run_ends(held.id)
    record = await bench.drive(generation=2)
    assert outcome(record) == "succeeded"
