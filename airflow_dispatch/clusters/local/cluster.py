"""The local cluster as the supervisor sees it: the Cluster port over files, locks and /proc.

Every call is a plain function over files, run in a small pool of threads of this cluster's own: a
disk that hangs then delays this cluster's callers and not the event loop, nor anybody else's
threads (docs/decisions/0021). Only `watch` looks at files from the loop itself: a handful of names
in one folder, many times a second, for every job that is supervised.

Nothing is remembered that files do not hold, except for what a task's last Find saw, which wakes a
watch early. Every access reads the run root's marker first. [no-state-outside] [evidence-only]
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import TypeVar

from airflow_dispatch import limits
from airflow_dispatch.clusters.local import (
    calls,
    entries,
    layout,
    output,
    refusals,
    watching,
)
from airflow_dispatch.clusters.local import (
    root as roots,
)
from airflow_dispatch.clusters.local.settings import Settings
from airflow_dispatch.core.commits import Sight
from airflow_dispatch.core.identity import JobKey, Mark, ObjectId, TaskKey
from airflow_dispatch.core.job import Job
from airflow_dispatch.core.record import Created, Decided, Done, Refused, Unclear
from airflow_dispatch.core.view import CallKind, Capabilities, Snapshot
from airflow_dispatch.errors import ClusterUnavailable, TaskUnavailable
from airflow_dispatch.ports.cluster import (
    OpenOrder,
    Output,
    Places,
    StartOrder,
    StopJobOrder,
    StopOrder,
    WithdrawOrder,
)

Result = TypeVar("Result")
_THREADS = 8


class LocalCluster:
    """One run root on this host."""

    def __init__(self, name: str, settings: Settings) -> None:
        self._name = name
        self._settings = settings
        self._pool: ThreadPoolExecutor | None = None
        self._seen = watching.Seen()

    @property
    def name(self) -> str:
        """The Airflow connection id."""
        return self._name

    def refusals(self, job: Job) -> tuple[str, ...]:
        """See the port."""
        return refusals.refusals(job, slots=self._settings.slots)

    async def probe(self, *, create: bool = False) -> Capabilities:
        """Read the root's marker; with `create` make the root, and see that a launch can write."""
        path = self._settings.run_root
        found = await self._do(lambda: roots.make(path) if create else roots.read(path))
        return Capabilities(
            fingerprint=found.fingerprint,
            call_bound=timedelta(seconds=limits.LOCAL_CALL_BOUND_SECONDS),
            start_bounded=True,
            permits=True,
            durable=False,
            final_when_answered=frozenset(CallKind),
        )

    async def find(self, tasks: tuple[TaskKey, ...]) -> Snapshot:
        """Everything in the spool of these tasks, all of it or an error."""
        return await self._do(lambda: self._find(tasks))

    def _find(self, tasks: tuple[TaskKey, ...]) -> Snapshot:
        began = datetime.now(timezone.utc)
        root = roots.read(self._settings.run_root)
        here = entries.Here.now()
        sights: list[Sight] = []
        for digest in sorted({task.digest for task in tasks}):
            self._seen.remember(root.path, digest)
            sights += _sights(root.path, digest, here)
        if roots.read(root.path) != root:
            raise ClusterUnavailable(
                f"the run root {root.path} became another one while it was read"
            )
        return Snapshot(root.fingerprint, began, tuple(sights))

    async def start(self, order: StartOrder) -> Created | Refused | Unclear:
        """Start a shim that lands the object behind its gate."""
        said = self.refusals(order.job)
        if said:
            return Refused(said[0], permanent=True)
        return await self._do(lambda: self._start(order))

    def _start(self, order: StartOrder) -> Created | Refused | Unclear:
        root = calls.verified(self._settings.run_root, order.fingerprint)
        return calls.start(root, order, slots=self._settings.slots)

    async def open(self, order: OpenOrder) -> Done | Refused | Unclear:
        """Place the permit."""
        return await self._do(
            lambda: calls.open_gate(
                calls.verified(self._settings.run_root, order.fingerprint), order
            )
        )

    async def stop(self, order: StopOrder) -> Done | Refused | Unclear:
        """Ask the shim to end its object; end what a dead shim left."""
        return await self._do(
            lambda: calls.stop(calls.verified(self._settings.run_root, order.fingerprint), order)
        )

    async def stop_job(self, order: StopJobOrder) -> Done | Refused | Unclear:
        """The same for every object of the record, found in the spool."""
        return await self._do(
            lambda: calls.stop_job(
                calls.verified(self._settings.run_root, order.fingerprint), order
            )
        )

    async def withdraw(self, order: WithdrawOrder) -> Decided | Refused | Unclear:
        """Be first to decide each start of the permit, or learn who was."""
        return await self._do(
            lambda: calls.withdraw(
                calls.verified(self._settings.run_root, order.fingerprint), order
            )
        )

    async def watch(self, task: TaskKey, *, seconds: float) -> None:
        """Look until the task's spool is not what the last Find saw."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        root, digest = self._settings.run_root, task.digest
        before = self._seen.last(root, digest)
        while watching.stamp(root, digest) == before:
            left = until - clock()
            if left <= 0:
                return
            await asyncio.sleep(min(self._settings.poll_seconds, left))

    async def read_output(
        self, key: JobKey, object: ObjectId, mark: Mark, *, offset: int, limit: int
    ) -> Output:
        """A piece of the run's standard output and error, which share one file."""
        path = self._settings.run_root
        return await self._do(
            lambda: output.read_output(
                roots.read(path), calls.same(key, object, mark), offset=offset, limit=limit
            )
        )

    async def read_result(self, key: JobKey, object: ObjectId, mark: Mark) -> str | None:
        """What the run wrote to `DISPATCH_RESULT`."""
        path = self._settings.run_root
        return await self._do(
            lambda: output.read_result(roots.read(path), calls.same(key, object, mark))
        )

    def places(self, key: JobKey, object: ObjectId, mark: Mark) -> Places:
        """Folder, output and result file of the submission."""
        folder = entries.submission_folder(self._settings.run_root, calls.same(key, object, mark))
        return Places(folder, f"{folder}/{layout.OUTPUT}", f"{folder}/{layout.RESULT}")

    async def close(self) -> None:
        """Let the threads go. What they are doing ends by itself."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=False)

    async def _do(self, call: Callable[[], Result]) -> Result:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"dispatch-{self._name}")
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._pool, call)
        except OSError as error:
            raise ClusterUnavailable(
                f"the run root {self._settings.run_root} cannot be used now ({error}); what runs "
                "there goes on"
            ) from error


def _sights(root: str, digest: str, here: entries.Here) -> list[Sight]:
    """The objects of one task; what cannot be read of it says nothing about other tasks."""
    try:
        found = (entries.read(root, digest, name) for name in entries.names(root, digest))
        return [entries.sight(root, entry, here) for entry in found if entry is not None]
    except (ClusterUnavailable, OSError) as error:
        raise TaskUnavailable(str(error), task_digest=digest) from error
