"""The clusters of this package as the conformance suite wants them."""

import asyncio
from dataclasses import replace
from pathlib import Path

from airflow_dispatch.clusters.local import adapter
from airflow_dispatch.core.causes import Cause, CauseKind
from airflow_dispatch.core.job import Job, Placement
from airflow_dispatch.core.record import Phase
from airflow_dispatch.ports.cluster import Cluster
from airflow_dispatch.testing.cluster_work import SharedFolder, Work
from airflow_dispatch.testing.memory_cluster import Held, MemoryCluster


class LocalHarness(SharedFolder):
    """The local cluster on a run root of its own; runs are real processes."""

    limits_memory = True

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        super().__init__(local(self.root), folder, patience_seconds=20)

    @property
    def impossible(self) -> Job | None:
        """A job for a partition."""
        return replace(self.job(Work()), placement=Placement(partition="gpu"))


def local(root: Path, *, slots: int = 4) -> Cluster:
    """A local cluster that looks often."""
    return adapter.connect("local", {"run_root": str(root), "slots": slots, "poll_seconds": "0.05"})


class MemoryHarness:
    """The memory cluster, with the hand that does the works of its runs.

    No time passes in it but what `pause` lets pass.
    """

    limits_memory = True
    patience_seconds = 60.0

    def __init__(self) -> None:
        self.cluster = MemoryCluster()
        self.works: dict[str, Work] = {}
        self.released: set[str] = set()
        self.counts: dict[str, int] = {}
        self.begun: set[str] = set()

    @property
    def impossible(self) -> Job | None:
        """A job in a container."""
        return replace(self.job(Work()), image="python:3.12")

    def job(self, work: Work) -> Job:
        """A job whose script names the work."""
        self.works[work.name] = work
        return Job(cluster="memory", time_limit_seconds=600, script=f"#!work\n{work.name}\n")

    async def release(self, work: Work) -> None:
        """See the port of the suite."""
        self.released.add(work.name)

    async def starts(self, work: Work) -> int:
        """See the port of the suite."""
        return self.counts.get(work.name, 0)

    async def pause(self) -> None:
        """Everything that runs does its next piece of work, then a second passes."""
        for held in list(self.cluster.objects.values()):
            if held.phase in (Phase.RUNNING, Phase.STOPPING):
                self._work(held)
        self.cluster.advance(1)
        await asyncio.sleep(0)

    def _work(self, held: Held) -> None:
        work = self.works[held.job.script.splitlines()[-1]]
        if held.id not in self.begun:
            self._begin(held, work)
        elif held.phase is Phase.STOPPING:
            if not work.shrugs:
                self.cluster.run_ends(held.id, signal=15)
        elif held.job.resources.memory_bytes and work.holds_bytes > held.job.resources.memory_bytes:
            self.cluster.run_ends(held.id, cause=Cause(CauseKind.OUT_OF_MEMORY))
        elif not work.waits or work.name in self.released:
            self.cluster.run_ends(held.id, work.exit_code, signal=work.signal or None)

    def _begin(self, held: Held, work: Work) -> None:
        self.begun.add(held.id)
        self.counts[work.name] = self.counts.get(work.name, 0) + 1
        environment = dict(held.job.env)
        self.cluster.writes(held.id, work.output + "".join(environment[n] for n in work.shows))
        held.result = work.result or None
