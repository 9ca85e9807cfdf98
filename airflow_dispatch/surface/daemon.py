"""The daemon: looks after every job that no trigger does, round after round, until told to end.

It carries out cancels whose triggerer died, goes on with runs that nobody supervises, and settles
what a trigger left behind. [follows-the-task] [nothing-forgotten] Any number of daemons and
triggers may do so side by side. [no-lock-needed]

One job that fails, and be it by a defect of ours, costs no other job its turn; a database that does
not answer is waited for. A daemon that is told to end does so after the step in flight of each job,
and what runs goes on.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from airflow_dispatch import limits
from airflow_dispatch.core.identity import JobKey
from airflow_dispatch.errors import DispatchError, StoreUnavailable
from airflow_dispatch.ports.journal import Journal, Level
from airflow_dispatch.supervisor import loop
from airflow_dispatch.supervisor.passes import Pace
from airflow_dispatch.supervisor.services import Services, Stop

SIGNALS = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger(__name__)


class Ending(Stop):
    """A `Stop` that also wakes a daemon which sleeps between two rounds."""

    __slots__ = ("_woken",)

    def __init__(self) -> None:
        super().__init__()
        self._woken = asyncio.Event()

    def request(self) -> None:
        """End after the step in flight."""
        self.requested = True
        self._woken.set()

    async def pause(self, services: Services, seconds: float) -> None:
        """Sleep, unless or until the end is requested."""
        sleeping = asyncio.ensure_future(services.clock.sleep(seconds))
        waking = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait({sleeping, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()


@dataclass(slots=True)
class Round:
    """What a round came to: jobs that nobody else looked after, those moved, those that failed."""

    seen: int = 0
    moved: int = 0
    failed: dict[JobKey, str] = field(default_factory=dict)


class Daemon:
    """See the module.

    Nothing in it outlives the process, nor needs to. [no-state-outside]
    """

    def __init__(self, services: Services, *, interval_seconds: float) -> None:
        self.ending = Ending()
        self._services = services
        self._interval_seconds = interval_seconds
        self._pace = Pace()
        self._failing: dict[JobKey, str] = {}
        """What was told of the jobs that failed in the last round: the same words come once."""
        self._seen: int | None = None

    async def run(self) -> None:
        """Round after round until the end is requested."""
        outages = 0
        while not self.ending.requested:
            try:
                await self.round()
            except StoreUnavailable as error:
                pause = self._pause(outages)
                outages += 1
                self._tell(Level.WARNING, f"{error} (what runs goes on; again in {pause:g} s)")
            else:
                pause, outages = self._interval_seconds, 0
            await self.ending.pause(self._services, pause)

    async def until_nothing_moves(self) -> Round:
        """Rounds until one moves nothing; what all of them came to."""
        total = Round()
        for _ in range(limits.DAEMON_ROUNDS_ONCE):
            latest = await self.round()
            total = Round(max(total.seen, latest.seen), total.moved + latest.moved, latest.failed)
            if not latest.moved or self.ending.requested:
                break
        return total

    async def round(self) -> Round:
        """Move every job that nobody else looks after as far as it goes now."""
        keys = await self._claimable()
        self._count(len(keys))
        places = asyncio.Semaphore(limits.DAEMON_JOBS_AT_ONCE)
        done = Round(seen=len(keys))

        async def take_turn(key: JobKey) -> None:
            async with places:
                if not self.ending.requested:
                    await self._move(key, done)

        await asyncio.gather(*(take_turn(key) for key in keys))
        self._failing = done.failed
        return done

    async def _claimable(self) -> list[JobKey]:
        """Every job that nobody looks after: old ones that wait must not hide the new ones."""
        keys: list[JobKey] = []
        while True:
            after = keys[-1] if keys else None
            page = await self._services.store.claimable(after=after, limit=limits.PAGE_ROWS_MAX)
            keys += page
            if len(page) < limits.PAGE_ROWS_MAX:
                return keys

    async def _move(self, key: JobKey, done: Round) -> None:
        journal = OfJob(self._services.journal, key)
        services = replace(self._services, journal=journal)
        try:
            done.moved += await loop.drive(services, key, pace=self._pace, stop=self.ending)
        except DispatchError as error:
            done.failed[key] = str(error)
        except Exception as error:  # The edge: one job's defect must not end the daemon.
            done.failed[key] = f"a defect of airflow-dispatch, please report it: {error!r}"
            log.debug("What went wrong with %s", key, exc_info=error)
        if done.failed.get(key) != self._failing.get(key) and key in done.failed:
            journal.tell(Level.WARNING, f"{done.failed[key]} (what runs goes on)")

    def _count(self, jobs: int) -> None:
        """Tell how many jobs depend on the daemon, when that changes."""
        if jobs != self._seen:
            self._seen = jobs
            which = "1 job" if jobs == 1 else f"{jobs} jobs"
            self._tell(
                Level.INFO, f"{which} nobody else looks after." if jobs else "Nothing to do."
            )

    def _pause(self, outages: int) -> float:
        settings = self._services.settings
        return min(settings.retry_seconds * 2.0 ** min(outages, 20), settings.retry_seconds_max)

    def _tell(self, level: Level, text: str) -> None:
        self._services.journal.tell(level, text)


class OfJob:
    """A journal whose lines name their job; what the run prints stays out of the daemon's log."""

    def __init__(self, journal: Journal, key: JobKey) -> None:
        self._journal = journal
        self._name = f"{key.digest[:12]} {key.task.dag_id}.{key.task.task_id}"

    def tell(self, level: Level, text: str) -> None:
        """One line of the job's story."""
        self._journal.tell(level, f"{self._name}: {text}")

    def output(self, text: str) -> None:
        """Nothing: the run's output is for the log of its task."""


@contextmanager
def ended_by_signals(daemon: Daemon) -> Iterator[None]:
    """The first SIGTERM or SIGINT asks the daemon to end, the next one ends the process at once."""
    running = asyncio.get_running_loop()

    def ask() -> None:
        release()
        daemon.ending.request()

    def release() -> None:
        for number in SIGNALS:
            running.remove_signal_handler(number)

    for number in SIGNALS:
        running.add_signal_handler(number, ask)
    try:
        yield
    finally:
        release()
