"""The daemon: every job gets its turn, nothing but being told ends it, and it ends gently."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass, field, replace

import pytest

from airflow_dispatch import limits
from airflow_dispatch.cli import supervising
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.core.commits import kind_of
from airflow_dispatch.core.identity import JobKey, TaskKey
from airflow_dispatch.core.record import Phase
from airflow_dispatch.core.view import Snapshot
from airflow_dispatch.errors import ClusterUnavailable, InvalidConfiguration, StoreUnavailable
from airflow_dispatch.ports.cluster import Cluster
from airflow_dispatch.stores.memory import MemoryStore
from airflow_dispatch.supervisor import acts
from airflow_dispatch.supervisor.resolve import Try, resolve
from airflow_dispatch.supervisor.services import Services
from airflow_dispatch.surface.daemon import Daemon, ended_by_signals
from airflow_dispatch.testing.doubles import GivenClusters, ManualClock
from airflow_dispatch.testing.memory_cluster import MemoryCluster
from tests.unit.supervisor.bench import DEPLOYMENT, JOB, ROW, Bench, key


async def another(bench: Bench, name: str) -> JobKey:
    """A job of another task, on a cluster of that name; its key."""
    task = TaskKey(DEPLOYMENT, "dag", "run", name)
    bench.tasks.set(task, replace(ROW, ti_id=name))
    services = with_clusters(bench, name)
    record = await resolve(services, Try(task, name, 1), replace(JOB, cluster=name))
    return record.state.key


def with_clusters(bench: Bench, *names: str, broken: Cluster | None = None) -> Services:
    """The services with clusters of these names beside the usual one."""
    clusters: dict[str, Cluster] = {"memory": bench.cluster}
    for name in names:
        clusters[name] = broken or MemoryCluster(name, fingerprint=f"memory:{name}")
    return replace(bench.services("daemon"), clusters=GivenClusters(clusters))


async def test_a_cancel_whose_triggerer_died_is_carried_out() -> None:
    """Round after round until the record is settled; what the run prints is not told."""
    bench = Bench()
    await bench.made()
    await bench.drive()
    await acts.cancel(bench.services(), key(), actor="person:ada", reason="wrong data")
    daemon = Daemon(bench.services("daemon"), interval_seconds=5)
    await daemon.round()
    bench.pass_time(JOB.grace_seconds + 1)
    await daemon.round()
    assert (await bench.record()).state.settled_revision
    assert f"{key().digest[:12]} dag.train: Settled" in bench.lines.text
    assert bench.lines.written == ""
    assert (await daemon.round()).seen == 0


async def test_a_task_that_was_failed_while_no_trigger_lived_loses_its_run() -> None:
    """The first round asks Airflow's rows and stops the run, a later one settles."""
    bench = Bench()
    await bench.made()
    await bench.drive()
    bench.row(state="failed")
    daemon = Daemon(bench.services("daemon"), interval_seconds=5)
    assert (await daemon.round()).moved == 1
    assert bench.only().phase is Phase.STOPPING
    bench.pass_time(JOB.grace_seconds + 1)
    await daemon.round()
    outcome = (await bench.record()).state.outcome
    assert str(outcome) == "cancelled by airflow: the task instance is failed"
    assert (await bench.record()).state.settled_revision


async def test_a_job_that_somebody_owns_is_left_alone() -> None:
    """The daemon takes no turn on it."""
    bench = Bench()
    await bench.made()
    await bench.store.claim(key(), "triggerer@host:1", seconds=60)
    before = await bench.record()
    assert (await Daemon(bench.services("daemon"), interval_seconds=5).round()).seen == 0
    assert await bench.record() == before


class Broken(MemoryCluster):
    """A cluster whose every Find fails as the test says."""

    error: Exception = ClusterUnavailable("the cluster does not answer")

    async def find(self, tasks: tuple[TaskKey, ...]) -> Snapshot:
        """Fail."""
        raise self.error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ClusterUnavailable("the cluster does not answer"), "the cluster does not answer"),
        (ZeroDivisionError("oh"), "a defect of airflow-dispatch"),
    ],
)
async def test_one_job_that_fails_costs_no_other_its_turn(error: Exception, told: str) -> None:
    """Be it by an outage or by a defect: the others move, and it is told once, not every round."""
    bench = Bench()
    await another(bench, "broken")
    await bench.made()
    cluster = Broken("broken", fingerprint="memory:broken")
    cluster.error = error
    daemon = Daemon(with_clusters(bench, "broken", broken=cluster), interval_seconds=5)
    first = await daemon.round()
    assert (first.seen, first.moved, len(first.failed)) == (2, 1, 1)
    assert bench.only().started_at is not None
    await daemon.round()
    assert bench.lines.text.count(told) == 1


@dataclass
class Flaky:
    """A store that does not answer the first `fail` questions for claimable records."""

    store: MemoryStore
    fail: int
    asked: list[int] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)

    async def claimable(self, **options: object) -> tuple[JobKey, ...]:
        """Fail, or answer."""
        self.asked.append(1)
        if len(self.asked) <= self.fail:
            raise StoreUnavailable("the database does not answer")
        return await self.store.claimable(**options)  # type: ignore[arg-type]  # as it was given


async def test_many_jobs_that_wait_do_not_hide_the_one_after_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A round takes every page."""
    monkeypatch.setattr(limits, "PAGE_ROWS_MAX", 2)
    bench = Bench()
    names = ["a", "b", "c", "d"]
    for name in names:
        await another(bench, name)
    await bench.made()
    broken = Broken("broken", fingerprint="memory:broken")
    daemon = Daemon(with_clusters(bench, *names, broken=broken), interval_seconds=5)
    done = await daemon.round()
    assert (done.seen, done.moved, len(done.failed)) == (5, 1, 4)
    assert bench.only().started_at is not None


async def test_a_database_that_does_not_answer_is_waited_for() -> None:
    """With pauses that grow, and then it goes on; the end is asked for while it sleeps."""
    bench = Bench()
    await bench.made()
    slept: list[float] = []

    class Clock(ManualClock):
        """Remembers the pauses; in the first one that is no outage's the end is asked for."""

        async def sleep(self, seconds: float) -> None:
            slept.append(seconds)
            if seconds == 5:
                daemon.ending.request()

    store = Flaky(bench.store, fail=3)
    services = replace(bench.services("daemon"), store=store, clock=Clock())  # type: ignore[arg-type]  # a double
    daemon = Daemon(services, interval_seconds=5)
    await daemon.run()
    assert slept == [2, 4, 8, 5]
    assert bench.only().started_at is not None


async def test_the_first_signal_ends_it_after_the_step_in_flight() -> None:
    """SIGTERM while a pass is under way: the pass ends, and no other begins."""
    finds: list[int] = []

    class Signalled(MemoryCluster):
        """In the middle of the first pass the process is told to end."""

        async def find(self, tasks: tuple[TaskKey, ...]) -> Snapshot:
            finds.append(1)
            if len(finds) == 1:
                os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(daemon.ending._woken.wait(), timeout=30)
            return await super().find(tasks)

    bench = Bench(cluster=Signalled())
    await bench.made()
    daemon = Daemon(bench.services("daemon"), interval_seconds=5)
    with ended_by_signals(daemon):
        await daemon.run()
    kinds = [kind_of(entry.commit.body) for entry in await bench.history()]
    assert kinds == ["begun", "authorized", "intended", "replied"]
    assert await bench.store.owner(key()) is None


async def test_supervise_once_ends_when_nothing_moves() -> None:
    """It says who it is and what came of it; a run that goes on is no failure."""
    bench = Bench()
    await bench.made()
    code = await supervising.serve(bench.services("daemon"), interval_seconds=5, once=True)
    assert code is Exit.OK
    assert "looks after the jobs of deployment deployment" in bench.lines.text
    assert bench.lines.text.endswith(
        "Nothing moves any more: 1 job looked after, 0 of them failed."
    )


async def test_supervise_once_fails_for_a_job_that_could_not_be_moved() -> None:
    """A script can tell."""
    bench = Bench()
    await another(bench, "gone")
    code = await supervising.serve(bench.services("daemon"), interval_seconds=5, once=True)
    assert code is Exit.ATTENTION
    assert "there is no Airflow connection 'gone'" in bench.lines.text


@pytest.mark.parametrize("seconds", [0, 0.05, 3601, float("nan"), -1])
async def test_an_absurd_interval_is_refused(seconds: float) -> None:
    """Before anything is done."""
    bench = Bench()
    with pytest.raises(InvalidConfiguration, match="--interval"):
        await supervising.serve(bench.services(), interval_seconds=seconds, once=False)
