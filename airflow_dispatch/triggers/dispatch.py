"""`DispatchTrigger`: supervises the run of one try of a task, and reports once it has its outcome.

It may be started for a try that is long over, twice at once, or after the next try has begun, and
it may be cut off at any await. So it keeps nothing that the record does not hold, makes nothing
before Airflow's rows say that its very try is the current one, and lets every cancellation of its
coroutine through. [no-state-outside]

A failure of the task would end its run. So the trigger fails no task for what says nothing about
the run: it waits, and tells the task's log for what. It reports a refusal only once it has read the
records and knows that there is none of this try.

Airflow calls `on_kill` for a user's act, but also for its own reassignments, after the event, late,
and cuts it short; so that only asks the rows again, as every pass does. [follows-the-task]

The arguments are stored as plain text: they hold no secret, no generation and no deployment. The
path of this class is stored in databases: it does not change.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_dispatch.core import codec
from airflow_dispatch.core.classify import Wish, classify
from airflow_dispatch.core.identity import JobKey, TaskKey
from airflow_dispatch.core.record import OnClear, OutcomeState, Record
from airflow_dispatch.errors import (
    ClusterUnavailable,
    DispatchError,
    InvalidConfiguration,
    JobRefused,
)
from airflow_dispatch.ports.journal import Level
from airflow_dispatch.supervisor import acts
from airflow_dispatch.supervisor.loop import supervise
from airflow_dispatch.supervisor.resolve import NotCurrent, Try, resolve
from airflow_dispatch.supervisor.services import Services, Stop
from airflow_dispatch.surface import event, patience, runtime
from airflow_dispatch.surface.connections import (
    Connections,
    InlineConnections,
    TriggerConnections,
)
from airflow_dispatch.surface.journal import LogJournal
from airflow_dispatch.surface.patience import OUTAGES, insist
from airflow_dispatch.surface.runtime import Runtime

KILL_SECONDS_MAX = 600.0
"""How long a kill goes on settling; what is left then is the daemon's."""

log = logging.getLogger(__name__)

_kills: set[asyncio.Task[None]] = set()
"""What `on_kill` began and Airflow no longer waits for: referenced here until it is done."""


class DispatchTrigger(BaseTrigger):
    """One try of one task; see the module."""

    def __init__(
        self,
        *,
        job: str,
        dag_id: str,
        run_id: str,
        task_id: str,
        map_index: int,
        ti_id: str,
        try_number: int,
        on_clear: str = OnClear.RESTART.value,
        deadline: str | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's has no annotations
        self._job = job
        self._task = (dag_id, run_id, task_id, map_index)
        self._ti_id = ti_id
        self._try_number = try_number
        self._on_clear = on_clear
        self._deadline = deadline
        self._fired = False
        self._killing: asyncio.Task[None] | None = None
        self._journal = LogJournal(log)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The path of the class and its arguments, all of them plain values."""
        dag_id, run_id, task_id, map_index = self._task
        return (
            "airflow_dispatch.triggers.dispatch.DispatchTrigger",
            {
                "job": self._job,
                "dag_id": dag_id,
                "run_id": run_id,
                "task_id": task_id,
                "map_index": map_index,
                "ti_id": self._ti_id,
                "try_number": self._try_number,
                "on_clear": self._on_clear,
                "deadline": self._deadline,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Supervise until the outcome is on record; then one event.

        None at all for a try that is not the current one.
        """
        began = time.monotonic()
        payload = await self._payload()
        if payload is not None and not self._inline:
            await patience.not_too_soon(began)
            if "refused" in payload:
                # Airflow calls a connection undefined, too, when it failed to ask for it: look
                # once more before the task fails for that.
                payload = await self._payload()
        if payload is not None:
            self._fired = True
            yield TriggerEvent(payload)  # type: ignore[no-untyped-call]  # as above

    async def on_kill(self) -> None:
        """Stop the run if Airflow's rows say that no try wants it any more; else leave it alone."""
        if self._fired:
            return
        if self._killing is None or self._killing.done():
            self._killing = asyncio.create_task(self._killed())
            _kills.add(self._killing)
            self._killing.add_done_callback(_kills.discard)
        # Airflow cuts this method short after about a second; what was begun goes on.
        await asyncio.shield(self._killing)

    # --- the run ----------------------------------------------------------------------------------

    async def _payload(self) -> event.Payload | None:
        """What to report, or None if this try is not the current one."""
        try:
            await patience.configured(self._journal, self._check, wait=not self._inline)
            async with runtime.shared(self._connections()) as shared:
                services = shared.services(owner=self._owner(), journal=self._journal)
                record = await self._resolved(services, shared)
                if record is None:
                    return None
                record = await self._supervised(services, record.state.key)
                return await self._reported(services, record)
        except (InvalidConfiguration, JobRefused) as error:
            self._journal.tell(Level.ERROR, f"Nothing is launched: {error}")
            return event.refused(str(error))
        finally:
            self._journal.flush()

    def _check(self) -> None:
        """Raise unless options and job can be read here; nothing is contacted."""
        runtime.make(self._connections())
        codec.decode_job(self._job)

    async def _resolved(self, services: Services, shared: Runtime) -> Record | None:
        """The record of this try; None if another try is the current one, looked at twice."""
        job = codec.decode_job(self._job)
        # Whatever is wrong up to here says nothing about the records: it is waited for.
        waited_for = OUTAGES if self._inline else (*OUTAGES, InvalidConfiguration)
        task = await insist(services, lambda: self._task_key(services), on=waited_for)
        asking = Try(task, self._ti_id, self._try_number, OnClear(self._on_clear))

        async def attempt() -> Record:
            with suppress(InvalidConfiguration):
                await shared.clusters.refresh(job.cluster)  # `resolve` says so where it matters.
            return await resolve(services, asking, job)

        with suppress(NotCurrent):
            return await insist(services, attempt, on=OUTAGES)
        await services.clock.sleep(services.settings.poll_seconds)
        try:
            return await insist(services, attempt, on=OUTAGES)
        except NotCurrent as error:
            services.journal.tell(Level.WARNING, f"{error}.")
            return None

    async def _supervised(self, services: Services, key: JobKey) -> Record:
        """Supervise under the task's deadline until the outcome stands.

        The record is there: from here on, a connection that is wrong is waited for, too.
        """

        async def attempt() -> Record | None:
            return await supervise(services, key, stop=Stop())

        watching = asyncio.create_task(self._enforce_deadline(services, key))
        try:
            while True:
                found = await insist(services, attempt, on=(*OUTAGES, InvalidConfiguration))
                if found is not None:
                    return found
        except asyncio.CancelledError:
            await patience.give_back(services, key)
            raise
        finally:
            watching.cancel()

    async def _enforce_deadline(self, services: Services, key: JobKey) -> None:
        """Cancel the run once the task's `execution_timeout` has passed; Airflow does not."""
        if self._deadline is None:
            return
        left = datetime.fromisoformat(self._deadline) - datetime.now(timezone.utc)
        await services.clock.sleep(max(left.total_seconds(), 0.0))

        async def cancel() -> Record:
            return await acts.cancel(services, key, actor="airflow", reason=event.DEADLINE)

        await insist(services, cancel, on=OUTAGES)

    async def _reported(self, services: Services, record: Record) -> event.Payload:
        """The event of a record with an outcome."""
        key, outcome = record.state.key, record.state.outcome
        wanted = event.deciding_object(record)
        if wanted is None:
            return event.ended(record, places=None)
        cluster = await services.clusters.get(record.state.cluster)
        places = cluster.places(key, wanted.id, wanted.mark)
        if outcome is None or outcome.state is not OutcomeState.SUCCEEDED:
            return event.ended(record, places=places)

        async def read() -> str | None:
            return await cluster.read_result(key, wanted.id, wanted.mark)

        try:
            seconds = services.settings.settle_seconds
            result = await insist(services, read, on=(ClusterUnavailable,), seconds=seconds)
        except ClusterUnavailable as error:
            return event.ended(record, places=places, result_lost=str(error))
        return event.ended(record, places=places, result=result)

    # --- the kill ---------------------------------------------------------------------------------

    async def _killed(self) -> None:
        """Ask the rows; commit the cancel first, which is final, and then see to what runs."""
        try:
            async with runtime.shared(self._connections()) as shared:
                # No task waits for this: it may take until every call in flight is over.
                settings = replace(shared.settings, settle_seconds=KILL_SECONDS_MAX)
                services = replace(
                    shared.services(owner=self._owner(), journal=self._journal), settings=settings
                )
                key = await self._cancelled(services)
                if key is not None:
                    await supervise(services, key, stop=Stop(), output=False)
        except DispatchError as error:
            self._journal.tell(
                Level.WARNING,
                f"{error} (the run is seen to by whoever supervises it next: a trigger of this task"
                " or `airflow dispatch supervise`)",
            )

    async def _cancelled(self, services: Services) -> JobKey | None:
        """The record to see to: cancelled here, or with an outcome whose run may still be there.

        The kill may well cut off the very pass that committed the cancel and had not yet stopped
        anything. Of the task's records only the latest matters: earlier ones were cancelled before
        it was made, and who supervises it sees to them.
        """
        task = await self._task_key(services)
        record = await services.store.latest(task)
        if record is None:
            return None
        key = record.state.key
        if record.state.outcome is not None:
            return None if record.state.settled_revision else key
        answer = classify(record.state, (await services.tasks.read((task,)))[task])
        if answer.wish is not Wish.CANCEL:
            services.journal.tell(Level.INFO, f"Airflow lets this trigger go; {answer.why}.")
            return None
        await acts.cancel(services, key, actor="airflow", reason=answer.why)
        return key

    # --- what both need ---------------------------------------------------------------------------

    @property
    def _inline(self) -> bool:
        """Whether no triggerer runs this, but the task's own process (`dag.test`)."""
        return self.trigger_id is None

    def _connections(self) -> Connections:
        return InlineConnections() if self._inline else TriggerConnections()

    def _owner(self) -> str:
        return f"{runtime.owner('inline' if self._inline else 'triggerer')}:{self.trigger_id or 0}"

    async def _task_key(self, services: Services) -> TaskKey:
        dag_id, run_id, task_id, map_index = self._task
        return TaskKey(await services.store.deployment(), dag_id, run_id, task_id, map_index)
