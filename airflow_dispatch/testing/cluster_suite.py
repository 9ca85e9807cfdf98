"""The conformance suite of the Cluster port: what every adapter must do, as tests.

To use it, give a fixture `harness` (a `cluster_work.Harness` with an empty cluster) and a class:

    class TestMyCluster(ClusterSuite):
        '''My cluster keeps the contract.'''

The tests need pytest and pytest-asyncio. They wait by looking, never by sleeping for long, and use
the cluster's own clock for deadlines. What a harness says its cluster cannot do is skipped, with
the reason; what `Capabilities` lacks is, too.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_dispatch import limits
from airflow_dispatch.core.causes import Cause, CauseKind
from airflow_dispatch.core.commits import Sight
from airflow_dispatch.core.record import Decided, Done, Permit, Phase, Refused
from airflow_dispatch.errors import ClusterMismatch
from airflow_dispatch.ports.cluster import Output
from airflow_dispatch.testing.cluster_work import FIRST, Harness, Scene, Work, other

SECOND = Permit(2, 0, 0)
HOSTILE = {
    "A_EMPTY": "",
    "B_LINES": "one\ntwo\n\n three",
    "C_QUOTES": 'it\'s "quoted" `echo no` $(echo no) $HOME \\n \\',
    "D_UNICODE": "åäö — 東京 🚀 \u202e\u00a0",
    "E_OPTION": "-n",
    "F_LONG": "x" * 100_000,
    "G_CONTROL": "\x01\x1b[31m\x7f\t",
}


def cause(sight: Sight) -> Cause | None:
    """Why an ended object did not succeed; None for success."""
    verdict = sight.incarnations[-1].verdict
    assert verdict is not None, f"no verdict: {sight}"
    return verdict.cause


def kind(sight: Sight) -> CauseKind | None:
    """The kind of the cause."""
    found = cause(sight)
    return None if found is None else found.kind


class ClusterSuite:
    """See the module."""

    pytestmark = pytest.mark.asyncio

    # --- birth ------------------------------------------------------------------------------------

    async def test_the_probe_names_what_answers(self, harness: Harness) -> None:
        """Probe and Find tell of one and the same cluster."""
        capabilities = await harness.cluster.probe(create=True)
        assert capabilities.fingerprint == (await harness.cluster.find(())).fingerprint
        assert capabilities.call_bound > timedelta(0)

    async def test_an_object_is_born_gated(self, harness: Harness) -> None:
        """A new object waits at its gate, bears its mark, and nothing of it runs before open."""
        scene, work = await Scene.of(harness), Work()
        mark = scene.mark(submission=2, attempt=3)
        sight = await scene.started(harness.job(work), mark)
        await scene.moments()
        assert [s.mark for s in await scene.shown()] == [mark]
        sight = await scene.look(sight.id)
        assert (sight.phase, sight.started, sight.idle) == (Phase.GATED, False, False)
        assert await harness.starts(work) == 0

    async def test_a_late_start_makes_nothing(self, harness: Harness) -> None:
        """A start whose deadline has passed is refused for now, and no object appears."""
        scene = await Scene.of(harness)
        order = await scene.start_order(harness.job(Work()), scene.mark(), seconds=-10)
        reply = await harness.cluster.start(order)
        assert isinstance(reply, Refused)
        assert not reply.permanent
        await scene.moments()
        assert await scene.shown() == ()

    async def test_a_doubled_start_makes_nothing_open(self, harness: Harness) -> None:
        """One start sent twice at once leaves only gated objects with its mark."""
        scene, work = await Scene.of(harness), Work()
        order = await scene.start_order(harness.job(work), scene.mark())
        await asyncio.gather(harness.cluster.start(order), harness.cluster.start(order))
        await scene.moments()
        shown = await scene.shown()
        assert shown
        assert {(s.mark, s.phase) for s in shown} == {(order.mark, Phase.GATED)}
        assert await harness.starts(work) == 0

    async def test_what_cannot_be_honoured_is_refused(self, harness: Harness) -> None:
        """A job that `refusals` names is not started."""
        if harness.impossible is None:
            pytest.skip("the harness knows no job that this cluster cannot honour")
        scene = await Scene.of(harness)
        said = harness.cluster.refusals(harness.impossible)
        assert said
        reply = await harness.cluster.start(
            await scene.start_order(harness.impossible, scene.mark())
        )
        assert isinstance(reply, Refused)
        assert reply.permanent
        assert await scene.shown() == ()

    # --- open -------------------------------------------------------------------------------------

    async def test_an_opened_object_runs_to_success(self, harness: Harness) -> None:
        """Open starts the run, once; its end is shown with times and host, and stays shown."""
        scene, work = await Scene.of(harness), Work(waits=True)
        before = await scene.after(-1)
        sight = await scene.running(work)
        assert sight.phase is Phase.RUNNING
        assert not sight.idle
        await harness.release(work)
        sight = await scene.ended(sight)
        start = sight.incarnations[0]
        assert (sight.phase, cause(sight), start.start_count) == (Phase.ENDED, None, 0)
        assert start.host
        assert start.started_at is not None
        assert start.verdict is not None
        assert start.verdict.ended_at is not None
        assert before <= start.started_at <= start.verdict.ended_at <= await scene.after(1)
        assert await harness.starts(work) == 1
        assert await scene.look(sight.id) == sight

    async def test_open_twice_starts_once(self, harness: Harness) -> None:
        """Repeating an open, at once and after the start, starts nothing more."""
        scene, work = await Scene.of(harness), Work(waits=True)
        sight = await scene.started(harness.job(work))
        assert await scene.open(sight) == Done()
        assert await scene.open(sight) == Done()
        await scene.until(sight, lambda s: s.started)
        await scene.open(sight)
        await harness.release(work)
        await scene.ended(sight)
        await scene.open(sight)
        await scene.moments()
        assert await harness.starts(work) == 1

    async def test_a_late_open_opens_nothing(self, harness: Harness) -> None:
        """An open whose deadline has passed is refused for now and the gate stays shut."""
        scene, work = await Scene.of(harness), Work()
        sight = await scene.started(harness.job(work))
        reply = await scene.open(sight, seconds=-10)
        assert isinstance(reply, Refused)
        assert not reply.permanent
        await scene.moments()
        assert (await scene.look(sight.id)).phase is Phase.GATED
        assert await harness.starts(work) == 0

    async def test_open_needs_the_very_mark(self, harness: Harness) -> None:
        """An open for an object that bears another mark opens nothing."""
        scene, work = await Scene.of(harness), Work()
        sight = await scene.started(harness.job(work))
        reply = await scene.open(
            Sight(sight.id, other(sight.mark), sight.phase, sight.incarnations)
        )
        assert isinstance(reply, Refused)
        await scene.moments()
        assert (await scene.look(sight.id)).phase is Phase.GATED

    async def test_open_of_what_ended_is_refused_for_good(self, harness: Harness) -> None:
        """An object that was stopped behind its gate cannot be opened any more."""
        scene, work = await Scene.of(harness), Work()
        sight = await scene.started(harness.job(work))
        await scene.stop(sight)
        await scene.ended(sight)
        reply = await scene.open(sight)
        assert isinstance(reply, Refused)
        assert reply.permanent
        assert await harness.starts(work) == 0

    # --- withdraw ---------------------------------------------------------------------------------

    async def test_withdrawn_before_open_never_starts(self, harness: Harness) -> None:
        """A permit that was withdrawn starts nothing, however late it is written."""
        scene, work = await _scene_with_permits(harness), Work()
        sight = await scene.started(harness.job(work))
        assert await scene.withdraw(sight) == Decided(((0, False),))
        await scene.open(sight)
        await scene.moments()
        assert (await scene.look(sight.id)).phase is Phase.GATED
        assert await harness.starts(work) == 0

    async def test_withdraw_after_the_start_tells_of_it(self, harness: Harness) -> None:
        """A start that happened is answered as such, and the run goes on."""
        scene, work = await _scene_with_permits(harness), Work(waits=True)
        sight = await scene.running(work)
        assert await scene.withdraw(sight) == Decided(((0, True),))
        await scene.moments()
        assert (await scene.look(sight.id)).phase is Phase.RUNNING
        await harness.release(work)
        assert cause(await scene.ended(sight)) is None

    async def test_withdraw_answers_the_same_for_ever(self, harness: Harness) -> None:
        """Asked again, a withdraw tells what was decided first."""
        scene = await _scene_with_permits(harness)
        sight = await scene.started(harness.job(Work()))
        permit = Permit(1, 0, 2)
        first = await scene.withdraw(sight, permit)
        assert first == Decided(((0, False), (1, False), (2, False)))
        assert await scene.withdraw(sight, permit) == first

    async def test_the_next_permit_starts_after_a_withdrawn_one(self, harness: Harness) -> None:
        """A withdrawal takes back its own permit and no later one."""
        scene, work = await _scene_with_permits(harness), Work()
        sight = await scene.started(harness.job(work))
        await scene.withdraw(sight, FIRST)
        assert await scene.open(sight, permit=SECOND) == Done()
        assert cause(await scene.ended(sight)) is None
        assert await scene.withdraw(sight, SECOND) == Decided(((0, True),))
        assert await harness.starts(work) == 1

    async def test_open_and_withdraw_at_once_agree(self, harness: Harness) -> None:
        """Whoever is first, the answer of the withdraw is what happens."""
        for _ in range(3):
            scene, work = await _scene_with_permits(harness), Work()
            sight = await scene.started(harness.job(work))
            _, decided = await asyncio.gather(scene.open(sight), scene.withdraw(sight))
            assert isinstance(decided, Decided)
            started = decided.starts == ((0, True),)
            if started:
                await scene.ended(sight)
            else:
                await scene.moments()
            assert await harness.starts(work) == int(started)

    # --- stop -------------------------------------------------------------------------------------

    async def test_a_gated_object_is_stopped_at_once(self, harness: Harness) -> None:
        """A stop ends a gated object without starting it, and it is shown ended, not successful."""
        scene, work = await Scene.of(harness), Work()
        sight = await scene.started(harness.job(work))
        assert await scene.stop(sight, grace=3600) == Done()
        sight = await scene.ended(sight)
        assert (sight.phase, sight.started) == (Phase.ENDED, False)
        assert kind(sight) is CauseKind.CANCELLED_OUTSIDE
        assert await harness.starts(work) == 0

    async def test_a_running_object_is_stopped_by_a_warning(self, harness: Harness) -> None:
        """A stop warns first: a run that heeds it ends long before its grace is over."""
        scene = await Scene.of(harness)
        sight = await scene.running(Work(waits=True))
        assert await scene.stop(sight, grace=3600) == Done()
        assert kind(await scene.ended(sight)) is CauseKind.CANCELLED_OUTSIDE

    async def test_a_run_that_shrugs_is_killed(self, harness: Harness) -> None:
        """A run that ignores the warning is shown stopping, and is killed after its grace."""
        scene = await Scene.of(harness)
        sight = await scene.running(Work(waits=True, shrugs=True))
        assert await scene.stop(sight, grace=1) == Done()
        await scene.until(sight, lambda s: s.phase is Phase.STOPPING)
        assert await scene.stop(sight, grace=1) == Done()
        assert kind(await scene.ended(sight)) is CauseKind.CANCELLED_OUTSIDE

    async def test_a_stop_touches_one_object(self, harness: Harness) -> None:
        """Stopping one object of a task leaves its sibling alone."""
        scene, work = await Scene.of(harness), Work(waits=True)
        kept = await scene.running(work)
        stopped = await scene.started(harness.job(Work()), scene.mark(attempt=2))
        assert await scene.stop(stopped) == Done()
        await scene.ended(stopped)
        assert (await scene.look(kept.id)).phase is Phase.RUNNING
        await harness.release(work)
        assert cause(await scene.ended(kept)) is None

    async def test_a_stop_needs_the_very_mark(self, harness: Harness) -> None:
        """A stop for an object that bears another mark ends nothing."""
        scene = await Scene.of(harness)
        sight = await scene.started(harness.job(Work()))
        stranger = Sight(sight.id, other(sight.mark), sight.phase, sight.incarnations)
        assert isinstance(await scene.stop(stranger), Refused)
        await scene.moments()
        assert (await scene.look(sight.id)).phase is Phase.GATED

    async def test_stop_job_ends_all_of_the_record(self, harness: Harness) -> None:
        """Whatever bears the record's mark ends, of any attempt; other generations go on."""
        scene, work = await Scene.of(harness), Work(waits=True)
        running = await scene.running(Work(waits=True))
        gated = await scene.started(harness.job(Work()), scene.mark(attempt=7))
        later = await Scene.of(harness, generation=2, task=scene.key.task)
        kept = await later.running(work)
        assert await scene.stop_job() == Done()
        for sight in (running, gated):
            assert kind(await scene.ended(sight)) is CauseKind.CANCELLED_OUTSIDE
        assert (await later.look(kept.id)).phase is Phase.RUNNING
        await harness.release(work)
        await later.ended(kept)

    async def test_stopping_what_is_not_there_is_clear(self, harness: Harness) -> None:
        """StopJob of a record without objects is done; the stop of an unknown object refused."""
        scene = await Scene.of(harness)
        assert await scene.stop_job() == Done()
        mark = scene.mark()
        assert isinstance(await scene.stop(Sight(mark.tag, mark, Phase.GATED)), Refused)

    # --- find and watch ---------------------------------------------------------------------------

    async def test_find_shows_the_asked_tasks_whole(self, harness: Harness) -> None:
        """Objects of all tries and attempts are shown, foreign ones too, and of no other task."""
        one, two = await Scene.of(harness), await Scene.of(harness)
        again = await Scene.of(harness, generation=3, task=one.key.task)
        marks = {one.mark(), one.mark(submission=9, attempt=9), again.mark()}
        for scene in (one, again):
            for mark in sorted(marks):
                if mark.generation == scene.key.generation:
                    await scene.started(harness.job(Work()), mark)
        far = await two.started(harness.job(Work()))
        assert {s.mark for s in await one.shown()} == marks
        both = await harness.cluster.find((one.key.task, two.key.task))
        assert {s.mark for s in both.objects} == marks | {far.mark}
        assert (await harness.cluster.find(())).objects == ()

    async def test_another_cluster_is_never_ours(self, harness: Harness) -> None:
        """An order for another fingerprint raises ClusterMismatch and does nothing."""
        scene, work = await Scene.of(harness), Work()
        sight = await scene.started(harness.job(work))
        astray = Scene(harness, scene.key, "elsewhere:1")
        with pytest.raises(ClusterMismatch):
            await harness.cluster.start(await astray.start_order(harness.job(work), scene.mark()))
        for call in (astray.open(sight), astray.stop(sight), astray.withdraw(sight)):
            with pytest.raises(ClusterMismatch):
                await call
        with pytest.raises(ClusterMismatch):
            await astray.stop_job()
        await scene.moments()
        assert [s.phase for s in await scene.shown()] == [Phase.GATED]
        assert await scene.open(sight) == Done(), "the permit was withdrawn by a stray order"

    async def test_watch_returns_within_its_bound(self, harness: Harness) -> None:
        """Without any change a watch ends when its time is over."""
        scene = await Scene.of(harness)
        await scene.started(harness.job(Work()))
        await scene.shown()
        await _done(scene, asyncio.create_task(_watch(scene, seconds=0.3)))

    async def test_watch_returns_soon_after_a_change(self, harness: Harness) -> None:
        """A change while a watch waits, or since the last Find, ends it long before its time."""
        scene, work = await Scene.of(harness), Work(waits=True)
        sight = await scene.started(harness.job(work))
        waiting = asyncio.create_task(_watch(scene, seconds=3600))
        await scene.moments(1)
        assert await scene.open(sight) == Done()
        await _done(scene, waiting)
        await scene.until(sight, lambda s: s.started)
        await harness.release(work)
        await scene.moments()
        await _done(scene, asyncio.create_task(_watch(scene, seconds=3600)))
        await scene.ended(sight)

    # --- what a run leaves ------------------------------------------------------------------------

    async def test_output_is_read_in_pieces(self, harness: Harness) -> None:
        """Pieces of any size join to the whole output; no character is split; the end is told."""
        scene, work = await Scene.of(harness), Work(output="zwölf Boxkämpfer 🥊 " * 20)
        sight = await scene.ended(await scene.running(work))
        for limit in (4, 7, 64 << 10):
            assert await scene.output(sight, limit=limit) == work.output

    async def test_output_is_read_while_it_is_written(self, harness: Harness) -> None:
        """What a run printed can be read before it ends, and is then not complete."""
        scene, work = await Scene.of(harness), Work(output="so far", waits=True)
        sight = await scene.running(work)
        piece = Output("", 0, complete=False)
        while not piece.text:
            await harness.pause()
            piece = await scene.cluster.read_output(
                scene.key, sight.id, sight.mark, offset=0, limit=1024
            )
        assert (piece.text, piece.offset, piece.complete) == ("so far", 6, False)
        await harness.release(work)
        await scene.ended(sight)

    async def test_the_result_is_read_back(self, harness: Harness) -> None:
        """The text of the result is handed on as it is; a run without one has none."""
        scene, text = await Scene.of(harness), '{"accuracy": 0.97, "für": "später"}'
        sight = await scene.ended(await scene.running(Work(result=text)))
        assert await scene.cluster.read_result(scene.key, sight.id, sight.mark) == text
        bare = await Scene.of(harness)
        sight = await bare.ended(await bare.running(Work()))
        assert await bare.cluster.read_result(bare.key, sight.id, sight.mark) is None

    async def test_a_huge_result_is_cut(self, harness: Harness) -> None:
        """Of a result beyond the limit no more is read than shows that it is beyond."""
        scene = await Scene.of(harness)
        work = Work(result="x" * (limits.RESULT_BYTES_MAX + 1000))
        sight = await scene.ended(await scene.running(work))
        text = await scene.cluster.read_result(scene.key, sight.id, sight.mark)
        assert text is not None
        assert len(text) == limits.RESULT_BYTES_MAX + 1

    async def test_places_need_no_cluster(self, harness: Harness) -> None:
        """Where a run's files are is known without looking."""
        scene = await Scene.of(harness)
        mark = scene.mark()
        places = harness.cluster.places(scene.key, mark.tag, mark)
        assert places.run_folder
        assert places.output

    # --- how a run ends ---------------------------------------------------------------------------

    @pytest.mark.parametrize("code", [1, 42, 255])
    async def test_an_exit_code_is_told(self, harness: Harness, code: int) -> None:
        """A command that exits with another code than 0 failed, with that code."""
        scene = await Scene.of(harness)
        sight = await scene.ended(await scene.running(Work(exit_code=code)))
        found = cause(sight)
        assert found is not None
        assert (found.kind, found.number) == (CauseKind.EXIT, code)

    @pytest.mark.parametrize("signal", [9, 11, 15])
    async def test_a_signal_is_told(self, harness: Harness, signal: int) -> None:
        """A command that a signal ended failed, with that signal."""
        scene = await Scene.of(harness)
        sight = await scene.ended(await scene.running(Work(signal=signal)))
        found = cause(sight)
        assert found is not None
        assert (found.kind, found.number) == (CauseKind.SIGNAL, signal)

    async def test_the_time_limit_ends_a_run(self, harness: Harness) -> None:
        """The cluster itself ends a run at its time limit."""
        scene, work = await Scene.of(harness), Work(waits=True)
        job = replace(harness.job(work), time_limit_seconds=1, grace_seconds=1)
        sight = await scene.running(work, job)
        assert kind(await scene.ended(sight)) is CauseKind.TIME_LIMIT

    async def test_the_memory_limit_ends_a_run(self, harness: Harness) -> None:
        """A run that takes more memory than it asked for is ended for that."""
        if not harness.limits_memory:
            pytest.skip("the harness says that this cluster does not limit memory")
        scene, work = await Scene.of(harness), Work(holds_bytes=96 << 20, waits=True)
        job = harness.job(work)
        resources = replace(job.resources, memory_bytes=32 << 20)
        sight = await scene.started(replace(job, resources=resources))
        assert await scene.open(sight) == Done()
        assert kind(await scene.ended(sight)) is CauseKind.OUT_OF_MEMORY

    # --- hostile jobs -----------------------------------------------------------------------------

    async def test_the_environment_arrives_as_it_is(self, harness: Harness) -> None:
        """Values with lines, quotes, controls and any script reach the command unchanged."""
        scene, work = await Scene.of(harness), Work(shows=tuple(HOSTILE))
        job = replace(harness.job(work), env=tuple(sorted(HOSTILE.items())))
        sight = await scene.ended(await scene.running(work, job))
        assert cause(sight) is None
        assert await scene.output(sight) == "".join(HOSTILE.values())

    async def test_a_script_may_be_as_large_as_a_record_keeps(self, harness: Harness) -> None:
        """A script of exactly 1 MiB runs."""
        scene, work = await Scene.of(harness), Work(exit_code=7)
        job = harness.job(work)
        if not job.script:
            pytest.skip("the harness's jobs are commands")
        padding = "#" * (limits.SCRIPT_BYTES_MAX - len(job.script.encode()) - 1) + "\n"
        head, _, rest = job.script.partition("\n")
        job = replace(job, script=f"{head}\n{padding}{rest}")
        assert len(job.script.encode()) == limits.SCRIPT_BYTES_MAX
        found = cause(await scene.ended(await scene.running(work, job)))
        assert found is not None
        assert (found.kind, found.number) == (CauseKind.EXIT, 7)


async def _scene_with_permits(harness: Harness) -> Scene:
    capabilities = await harness.cluster.probe()
    if not capabilities.permits:
        pytest.skip("this cluster has no permits")
    return await Scene.of(harness)


async def _watch(scene: Scene, *, seconds: float) -> None:
    await scene.cluster.watch(scene.key.task, seconds=seconds)


async def _done(scene: Scene, waiting: asyncio.Task[None]) -> None:
    """See the watch return while the harness has patience."""
    until = await scene.after(scene.harness.patience_seconds)
    while not waiting.done():
        assert await scene.after(0) < until, "the watch did not return"
        await scene.harness.pause()
    await waiting
