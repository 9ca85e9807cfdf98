"""Puts the services of a supervisor together: database, clusters, clock, options.

Made lazily, in the process and the event loop that use it, because Airflow forks. Triggers of one
loop share one runtime, and the last to leave closes it, so that an inline trigger (`dag.test`),
whose loop ends with it, leaves nothing open. Only values and connections are kept here, nothing of
a run. [no-state-outside]
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from airflow_dispatch.errors import InvalidConfiguration
from airflow_dispatch.ports.clock import Clock
from airflow_dispatch.ports.journal import Journal
from airflow_dispatch.ports.store import Store
from airflow_dispatch.ports.tasks import Tasks
from airflow_dispatch.ports.tokens import Tokens
from airflow_dispatch.supervisor.services import Services, Settings
from airflow_dispatch.surface import configuration, options
from airflow_dispatch.surface.clock import SystemClock
from airflow_dispatch.surface.clusters import ConnectedClusters
from airflow_dispatch.surface.connections import Connections
from airflow_dispatch.surface.tokens import SystemTokens


@dataclass(slots=True)
class Runtime:
    """What the supervisors of one event loop share."""

    store: Store
    tasks: Tasks
    clusters: ConnectedClusters
    settings: Settings
    clock: Clock = field(default_factory=SystemClock)
    tokens: Tokens = field(default_factory=SystemTokens)

    def services(self, *, owner: str, journal: Journal) -> Services:
        """Everything that one supervisor is given."""
        return Services(
            store=self.store,
            clusters=self.clusters,
            clock=self.clock,
            tokens=self.tokens,
            tasks=self.tasks,
            journal=journal,
            owner=owner,
            settings=self.settings,
        )

    async def close(self) -> None:
        """Give back connections to the clusters and the database."""
        try:
            await self.clusters.close()
        finally:
            await self.store.close()


def make(connections: Connections) -> Runtime:
    """A runtime as the options say; contacts nothing. Raises `InvalidConfiguration`."""
    from airflow_dispatch.stores.sql.database import Database  # noqa: PLC0415 - SQLAlchemy is slow
    from airflow_dispatch.stores.sql.store import SqlStore  # noqa: PLC0415 - SQLAlchemy is slow
    from airflow_dispatch.stores.sql.task_rows import SqlTasks  # noqa: PLC0415 - SQLAlchemy is slow

    configuration.check()
    url = configuration.database_url()
    try:
        database = Database(url)
    except InvalidConfiguration as error:
        where = f"[{options.SECTION}] sql_alchemy_conn, or without it [database] sql_alchemy_conn"
        raise InvalidConfiguration(f"{error} ({where})") from error
    return Runtime(
        store=SqlStore(database),
        tasks=SqlTasks(database),
        clusters=ConnectedClusters(
            connections, find_seconds=configuration.seconds(options.FIND_SECONDS)
        ),
        settings=configuration.settings(),
    )


@asynccontextmanager
async def opened(connections: Connections) -> AsyncIterator[Runtime]:
    """A runtime of one's own, closed at the end: for commands."""
    runtime = make(connections)
    try:
        yield runtime
    finally:
        await runtime.close()


@dataclass(slots=True)
class _Shared:
    loop: asyncio.AbstractEventLoop
    runtime: Runtime
    users: int = 0


_shared: list[_Shared] = []
_closing: set[asyncio.Task[None]] = set()


@asynccontextmanager
async def shared(connections: Connections) -> AsyncIterator[Runtime]:
    """The runtime of this event loop, closed when its last user leaves: for triggers."""
    loop = asyncio.get_running_loop()
    # A loop that was ended with users in it can never be left by them; its runtime is forgotten.
    _shared[:] = [one for one in _shared if not one.loop.is_closed()]
    mine = next((one for one in _shared if one.loop is loop), None)
    if mine is None:
        mine = _Shared(loop, make(connections))
        _shared.append(mine)
    mine.users += 1
    try:
        yield mine.runtime
    finally:
        mine.users -= 1
        if not mine.users:
            _shared.remove(mine)
            await _close(mine.runtime)


async def _close(runtime: Runtime) -> None:
    """Close in a task of its own: Airflow may cancel the one who leaves, more than once."""
    closing = asyncio.create_task(runtime.close())
    _closing.add(closing)
    closing.add_done_callback(_closing.discard)
    await asyncio.shield(closing)


def owner(role: str) -> str:
    """Who this process is in leases and commits, for people and for liveness only."""
    return f"{role}@{socket.gethostname()}:{os.getpid()}"
