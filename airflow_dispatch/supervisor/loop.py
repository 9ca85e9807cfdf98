"""`supervise`: one job, pass after pass, under a lease.

Until it has its outcome and has settled or cannot settle soon.

Whoever does not own the record stands by: it watches the record, claims the lease when that is
free, and returns when the outcome is there, whoever brought it about. A successor's supervisor
drives its predecessors too, under their leases. A store or a cluster that does not answer is waited
for; what runs goes on meanwhile. Ownership is for liveness only. [no-lock-needed]
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from airflow_dispatch import limits
from airflow_dispatch.core.identity import JobKey
from airflow_dispatch.core.record import Record
from airflow_dispatch.core.steps import Rest, Wait, WaitKind
from airflow_dispatch.errors import (
    ClusterMismatch,
    ClusterUnavailable,
    InvalidConfiguration,
    StoreUnavailable,
)
from airflow_dispatch.ports.journal import Level
from airflow_dispatch.ports.store import Displaced, Lease, Owned
from airflow_dispatch.supervisor import filing, passes, story
from airflow_dispatch.supervisor.filing import LeaseLost
from airflow_dispatch.supervisor.passes import Pace, Passed
from airflow_dispatch.supervisor.services import Services, Stop
from airflow_dispatch.supervisor.tail import Tail

SLOW_WAITS = frozenset(
    {WaitKind.PREDECESSOR, WaitKind.FOREIGN, WaitKind.UNMATCHED, WaitKind.LOST, WaitKind.ASKED}
)
"""Waits that may take long or need a person: a task is not kept from its outcome by them."""

OUTAGES = (StoreUnavailable, ClusterUnavailable, ClusterMismatch)


async def supervise(
    services: Services, key: JobKey, *, stop: Stop, output: bool = True
) -> Record | None:
    """Supervise until the outcome stands; the run's output is told too, unless `output` is false.

    Returns the record then, or None where `stop` was requested.
    """
    supervision = _Supervision(services, key, stop, output=output)
    while not stop.requested:
        try:
            record = await supervision.turn()
        except OUTAGES as error:
            await supervision.outage(error)
            continue
        except LeaseLost as error:
            services.journal.tell(Level.WARNING, f"{error}; standing by.")
            supervision.lease = None
            continue
        supervision.outages = 0
        if record is not None:
            await supervision.give_back()
            return record
    await supervision.give_back()
    return None


@dataclass(slots=True)
class _Supervision:
    """Where one supervision stands. Nothing in it outlives the process, nor needs to.

    [no-state-outside]
    """

    services: Services
    key: JobKey
    stop: Stop
    lease: Lease | None = None
    renewed: float = 0.0
    pace: Pace = field(default_factory=Pace)
    tail: Tail = field(default_factory=Tail)
    told: tuple[WaitKind, ...] = ()
    outages: int = 0
    outcome_since: float | None = None
    standing_by: str = ""
    earlier_told: str = ""
    output: bool = True

    async def turn(self) -> Record | None:
        """One round: claim or stand by, one pass, drive the earlier tries, wait.

        A record: the work is done.
        """
        if not await self._owns():
            return await self._stand_by()
        passed = await passes.one(
            self.services, self.key, lease=self.lease, pace=self.pace, heard=self._hear
        )
        await self._drive_earlier(passed)
        if self._done(passed):
            return passed.record
        self._tell_waits(passed)
        if not passed.moved:
            await self._wait(passed)
        return None

    async def _hear(self, record: Record) -> None:
        """Tell what the run wrote, to its end before anything is concluded from how it ended."""
        if not self.output:
            return
        if any(known.verdict is not None for known in record.state.objects):
            await self.tail.finish(self.services, record)
        else:
            await self.tail.tell(self.services, record)

    async def _drive_earlier(self, passed: Passed) -> None:
        """Drive the unsettled earlier tries, oldest first: one round can settle a whole chain.

        One that cannot be driven now does not keep this job from its own supervision.
        """
        for earlier in reversed(passed.earlier):
            if earlier.state.settled_revision:
                continue
            try:
                await drive(self.services, earlier.state.key, pace=self.pace, stop=self.stop)
            except (*OUTAGES, InvalidConfiguration, LeaseLost) as error:
                if str(error) != self.earlier_told:
                    self.earlier_told = str(error)
                    self.services.journal.tell(Level.WARNING, f"{earlier.state.key}: {error}")

    async def _owns(self) -> bool:
        """Hold the lease, renewed at a third of its time."""
        now = self.services.clock.monotonic()
        if self.lease is None:
            self.lease = await self._claimed()
        elif now - self.renewed >= self.services.settings.lease_seconds / 3:
            self.lease = await self._renewed(self.lease)
        else:
            return True
        self.renewed = now
        return self.lease is not None

    async def _claimed(self) -> Lease | None:
        services = self.services
        seconds = services.settings.lease_seconds
        claimed = await services.store.claim(self.key, services.owner, seconds=seconds)
        if isinstance(claimed, Owned):
            if self.standing_by != claimed.owner:
                self.standing_by = claimed.owner
                services.journal.tell(
                    Level.INFO, f"{claimed.owner} supervises this job; standing by."
                )
            return None
        if self.standing_by:
            services.journal.tell(Level.INFO, f"Took over from {self.standing_by}.")
            self.standing_by = ""
        elif claimed.epoch > 1:
            services.journal.tell(
                Level.INFO, "Took over: whoever looked after this job before does so no longer."
            )
        self.tail.again = claimed.epoch > 1
        return claimed

    async def _renewed(self, lease: Lease) -> Lease | None:
        seconds = self.services.settings.lease_seconds
        renewed = await self.services.store.renew(lease, seconds=seconds)
        return None if isinstance(renewed, Displaced) else renewed

    async def _stand_by(self) -> Record | None:
        record = await filing.load(self.services, self.key)
        if record.state.outcome is not None:
            return record
        await self.services.clock.sleep(self.services.settings.poll_seconds)
        return None

    def _done(self, passed: Passed) -> bool:
        """Outcome and settled, or settling is out of time, or it waits for what may take long."""
        if passed.record.state.outcome is None:
            return False
        if isinstance(passed.step, Rest):
            return True
        now = self.services.clock.monotonic()
        if self.outcome_since is None:
            self.outcome_since = now
        if now - self.outcome_since >= self.services.settings.settle_seconds:
            return True
        waits = passed.step.waits if isinstance(passed.step, Wait) else ()
        return bool(waits) and not passed.moved and all(w.kind in SLOW_WAITS for w in waits)

    def _tell_waits(self, passed: Passed) -> None:
        if not isinstance(passed.step, Wait):
            return
        kinds = tuple(wait.kind for wait in passed.step.waits)
        if kinds and kinds != self.told and not passed.moved:
            self.told = kinds
            story.waits(self.services.journal, passed.step)

    async def _wait(self, passed: Passed) -> None:
        """Until the cluster shows something new, a wait ends, or it is time to look anyway."""
        seconds = self.services.settings.poll_seconds
        until = passed.step.until if isinstance(passed.step, Wait) else None
        if until is not None:
            left = (until - passed.view.began) / timedelta(seconds=1)
            seconds = max(min(seconds, left), 0.05)
        cluster = await self.services.clusters.get(passed.record.state.cluster)
        await cluster.watch(self.key.task, seconds=seconds)

    async def outage(self, error: Exception) -> None:
        """Say what does not answer and that the run goes on; pause, longer each time."""
        settings = self.services.settings
        pause = min(settings.retry_seconds * 2 ** min(self.outages, 20), settings.retry_seconds_max)
        self.outages += 1
        self.services.journal.tell(
            Level.WARNING,
            f"{error} (what runs goes on; looking again in {pause:g} s, outage {self.outages})",
        )
        await self.services.clock.sleep(pause)

    async def give_back(self) -> None:
        """Give the lease back, so that another need not wait for it to expire."""
        if self.lease is None:
            return
        lease, self.lease = self.lease, None
        try:
            await self.services.store.yield_(lease)
        except StoreUnavailable as error:
            self.services.journal.tell(Level.WARNING, f"{error} (the lease expires by itself)")


async def drive(services: Services, key: JobKey, *, pace: Pace, stop: Stop | None = None) -> bool:
    """Move a job that nobody else owns as far as it goes without waiting.

    Whether anything was moved. `stop` ends it after the pass in flight.
    """
    claimed = await services.store.claim(
        key, services.owner, seconds=services.settings.lease_seconds
    )
    if isinstance(claimed, Owned):
        return False
    moved = False
    try:
        for _ in range(limits.PASSES_PER_DRIVE_MAX):
            passed = await passes.one(services, key, lease=claimed, pace=pace)
            if not passed.moved:
                break
            moved = True
            if stop is not None and stop.requested:
                break
        return moved
    finally:
        await services.store.yield_(claimed)
