"""Waiting for what says nothing about a run: a database, a cluster, an option that is wrong here.

Each failure is told, with when the next try is; pauses grow up to a bound. What is waited for is
named by the caller; everything else ends the wait at once, and so does a cancellation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from airflow_dispatch.core.identity import JobKey
from airflow_dispatch.errors import (
    ClusterMismatch,
    ClusterUnavailable,
    DispatchError,
    InvalidConfiguration,
    InvalidJob,
    StoreUnavailable,
    UnreadableRecord,
)
from airflow_dispatch.ports.journal import Journal, Level
from airflow_dispatch.ports.store import Lease
from airflow_dispatch.supervisor.services import Services
from airflow_dispatch.surface import configuration, options

T = TypeVar("T")

OUTAGES = (StoreUnavailable, ClusterUnavailable, ClusterMismatch, UnreadableRecord)
"""What says nothing about a run, in any phase."""

MISCONFIGURED_SECONDS = 30.0
MISCONFIGURED_SECONDS_MAX = 900.0
"""Pauses while this process itself is configured wrong, which a restart of it will mend."""


async def insist(
    services: Services,
    attempt: Callable[[], Awaitable[T]],
    *,
    on: tuple[type[DispatchError], ...],
    seconds: float | None = None,
) -> T:
    """Try until it succeeds, or for `seconds`; the last failure is raised then."""
    settings, clock = services.settings, services.clock
    began, outages = clock.monotonic(), 0
    while True:
        try:
            return await attempt()
        except on as error:
            longer = settings.retry_seconds * 2.0 ** min(outages, 20)
            pause = min(longer, settings.retry_seconds_max)
            if seconds is not None and clock.monotonic() + pause > began + seconds:
                raise
            outages += 1
            services.journal.tell(
                Level.WARNING, f"{error} (looking again in {pause:g} s, outage {outages})"
            )
        await clock.sleep(pause)


async def configured(journal: Journal, check: Callable[[], None], *, wait: bool) -> None:
    """Return once `check` passes.

    A triggerer that was restarted with a wrong option must not cost the runs of its tasks. So the
    task waits for one that is right, unless `wait` is false.
    """
    pause = MISCONFIGURED_SECONDS
    while True:
        try:
            return check()
        except (InvalidConfiguration, InvalidJob, UnreadableRecord) as error:
            if not wait:
                raise
            journal.tell(
                Level.ERROR,
                f"{error}. This triggerer launches and supervises nothing until that is mended and"
                " it is started again; what runs goes on",
            )
        await asyncio.sleep(pause)
        pause = min(pause * 2, MISCONFIGURED_SECONDS_MAX)


async def not_too_soon(began: float) -> None:
    """Wait until `event_delay_seconds` have passed since `began`, by the monotonic clock."""
    delay = configuration.seconds(options.EVENT_DELAY_SECONDS)
    await asyncio.sleep(max(began + delay - time.monotonic(), 0.0))


async def give_back(services: Services, key: JobKey) -> None:
    """Let another supervisor take over at once, if the record is still ours."""
    try:
        owned = await services.store.owner(key)
        if owned is None or owned.owner != services.owner:
            return
        lease = await services.store.claim(
            key, services.owner, seconds=services.settings.lease_seconds
        )
        if isinstance(lease, Lease):
            await services.store.yield_(lease)
    except StoreUnavailable as error:
        services.journal.tell(Level.WARNING, f"{error} (the lease expires by itself)")
