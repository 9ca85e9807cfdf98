"""The hub: one Find at a time for all jobs of a process on one cluster.

The one place here that uses asyncio.

A job's `find` gets the first shared answer whose Find *began* after the job asked, never an older
one, so that sharing changes nothing about what may be judged from it. [evidence-only] Finds of one
cluster begin at least `interval_seconds` apart. The fetching may die at any line without loss:
whoever waits gets the error and asks again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from airflow_dispatch.core.identity import JobKey, Mark, ObjectId, TaskKey
from airflow_dispatch.core.job import Job
from airflow_dispatch.core.record import Created, Decided, Done, Refused, Unclear
from airflow_dispatch.core.view import Capabilities, Snapshot
from airflow_dispatch.errors import TaskUnavailable
from airflow_dispatch.ports.cluster import (
    Cluster,
    OpenOrder,
    Output,
    Places,
    StartOrder,
    StopJobOrder,
    StopOrder,
    WithdrawOrder,
)


@dataclass(slots=True)
class _Batch:
    """Who waits for the next Find, and for which tasks."""

    answer: asyncio.Future[Snapshot]
    tasks: set[TaskKey] = field(default_factory=set)
    unavailable: dict[str, TaskUnavailable] = field(default_factory=dict)
    """Of which tasks, by digest, the cluster could not show everything; the others have theirs."""


class Hub:
    """A Cluster that shares Finds; everything else goes straight through."""

    def __init__(self, cluster: Cluster, *, interval_seconds: float) -> None:
        self._cluster = cluster
        self._interval = interval_seconds
        self._waiting: _Batch | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._began = float("-inf")

    @property
    def name(self) -> str:
        """The connection id of the cluster behind."""
        return self._cluster.name

    async def find(self, tasks: tuple[TaskKey, ...]) -> Snapshot:
        """The asked tasks' part of the next shared Find."""
        if self._waiting is None:
            self._waiting = _Batch(asyncio.get_running_loop().create_future())
        batch = self._waiting
        batch.tasks.update(tasks)
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.create_task(self._fetch())
        snapshot = await asyncio.shield(batch.answer)
        wanted = {task.digest for task in tasks}
        for digest in sorted(wanted & set(batch.unavailable)):
            error = batch.unavailable[digest]
            raise TaskUnavailable(str(error), task_digest=digest) from error
        mine = tuple(sight for sight in snapshot.objects if sight.mark.task_digest in wanted)
        return replace(snapshot, objects=mine)

    async def _fetch(self) -> None:
        """Answer one batch after the other until nobody waits."""
        now = asyncio.get_running_loop().time
        while self._waiting is not None:
            await asyncio.sleep(max(0.0, self._began + self._interval - now()))
            batch, self._waiting = self._waiting, None
            self._began = now()
            try:
                snapshot = await self._look(batch)
            except BaseException as error:
                _tell(batch.answer, error)
                if not isinstance(error, Exception):
                    raise
            else:
                if not batch.answer.done():
                    batch.answer.set_result(snapshot)

    async def _look(self, batch: _Batch) -> Snapshot:
        """Find for the whole batch, without those tasks that it cannot be had for.

        Each round leaves one task out, so that what is wrong with one job stops no other.
        """
        while True:
            asked = tuple(sorted(t for t in batch.tasks if t.digest not in batch.unavailable))
            try:
                return await self._cluster.find(asked)
            except TaskUnavailable as error:
                if all(task.digest != error.task_digest for task in asked):
                    raise
                batch.unavailable[error.task_digest] = error

    def refusals(self, job: Job) -> tuple[str, ...]:
        """See `Cluster.refusals`."""
        return self._cluster.refusals(job)

    async def probe(self, *, create: bool = False) -> Capabilities:
        """See `Cluster.probe`."""
        return await self._cluster.probe(create=create)

    async def start(self, order: StartOrder) -> Created | Refused | Unclear:
        """See `Cluster.start`."""
        return await self._cluster.start(order)

    async def open(self, order: OpenOrder) -> Done | Refused | Unclear:
        """See `Cluster.open`."""
        return await self._cluster.open(order)

    async def stop(self, order: StopOrder) -> Done | Refused | Unclear:
        """See `Cluster.stop`."""
        return await self._cluster.stop(order)

    async def stop_job(self, order: StopJobOrder) -> Done | Refused | Unclear:
        """See `Cluster.stop_job`."""
        return await self._cluster.stop_job(order)

    async def withdraw(self, order: WithdrawOrder) -> Decided | Refused | Unclear:
        """See `Cluster.withdraw`."""
        return await self._cluster.withdraw(order)

    async def watch(self, task: TaskKey, *, seconds: float) -> None:
        """See `Cluster.watch`."""
        await self._cluster.watch(task, seconds=seconds)

    async def read_output(
        self, key: JobKey, object: ObjectId, mark: Mark, *, offset: int, limit: int
    ) -> Output:
        """See `Cluster.read_output`."""
        return await self._cluster.read_output(key, object, mark, offset=offset, limit=limit)

    async def read_result(self, key: JobKey, object: ObjectId, mark: Mark) -> str | None:
        """See `Cluster.read_result`."""
        return await self._cluster.read_result(key, object, mark)

    def places(self, key: JobKey, object: ObjectId, mark: Mark) -> Places:
        """See `Cluster.places`."""
        return self._cluster.places(key, object, mark)

    async def close(self) -> None:
        """End the fetching and close the cluster behind."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])
        await self._cluster.close()


def _tell(answer: asyncio.Future[Snapshot], error: BaseException) -> None:
    """Hand the error to those who wait.

    A cancelled fetch is no answer to them, so they are told to ask again.
    """
    if answer.done():
        return
    if isinstance(error, Exception):
        answer.set_exception(error)
        answer.exception()  # Seen here: a batch that nobody waits for any more must not warn.
    else:
        answer.cancel()
