"""From Airflow connections to clusters: by connection type, one for each name in a process.

Kinds of cluster plug in by the entry-point group `airflow_dispatch.clusters`. A connection is read
when a trigger starts, and again every minute by those who use it, so that a connection that was
mended needs no restart; a changed one gives a new cluster. That the new one is another scheduler is
not seen here but by its fingerprint, in every Find.
[evidence-only]
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from airflow_dispatch.core.view import Capabilities
from airflow_dispatch.errors import ClusterUnavailable, InvalidConfiguration
from airflow_dispatch.ports.cluster import Cluster, ClusterKind
from airflow_dispatch.supervisor.hub import Hub
from airflow_dispatch.surface.connections import Connections, Values

GROUP = "airflow_dispatch.clusters"
FRESH_SECONDS = 1.0
"""A connection that was read this long ago is not read again for the next trigger that starts."""
STALE_SECONDS = 60.0
"""A connection is read again after this long by whoever uses it."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Known:
    values: Values
    cluster: Cluster
    read_at: float
    capabilities: Capabilities | None = None


class ConnectedClusters:
    """The clusters of one process, with their Finds shared; belongs to one event loop."""

    def __init__(
        self,
        connections: Connections,
        *,
        find_seconds: float,
        fresh_seconds: float = FRESH_SECONDS,
        stale_seconds: float = STALE_SECONDS,
    ) -> None:
        self._connections = connections
        self._find_seconds = find_seconds
        self._fresh_seconds = fresh_seconds
        self._stale_seconds = stale_seconds
        self._known: dict[str, _Known] = {}
        self._replaced: list[Cluster] = []
        self._reading = asyncio.Lock()

    async def get(self, name: str) -> Cluster:
        """The cluster; raises `InvalidConfiguration` where the connection is missing or wrong."""
        return (await self._get(name)).cluster

    async def capabilities(self, name: str) -> Capabilities:
        """What it was found able to do when it was first asked."""
        known = await self._get(name)
        if known.capabilities is None:
            known.capabilities = await known.cluster.probe()
        return known.capabilities

    async def refresh(self, name: str) -> None:
        """Read the connection again; what it leads to is replaced if it was changed.

        Raises `InvalidConfiguration` where it is gone or wrong, and then nobody uses what it was.
        """
        await self._read(name, older_than=self._fresh_seconds)

    async def close(self) -> None:
        """Give back what the clusters hold. What runs goes on."""
        held = [known.cluster for known in self._known.values()] + self._replaced
        self._known, self._replaced = {}, []
        for cluster in held:
            await cluster.close()

    async def _get(self, name: str) -> _Known:
        try:
            return await self._read(name, older_than=self._stale_seconds)
        except ClusterUnavailable:
            # Airflow does not answer, which says nothing about a connection that is known.
            if name in self._known:
                return self._known[name]
            raise

    async def _read(self, name: str, *, older_than: float) -> _Known:
        """The cluster by what the connection was at most `older_than` seconds ago."""
        known = self._known.get(name)
        if known is not None and time.monotonic() - known.read_at <= older_than:
            return known
        async with self._reading:
            known = self._known.get(name)
            now = time.monotonic()
            if known is not None and now - known.read_at <= older_than:
                return known
            try:
                values = await self._connections.read(name)
                if known is not None and known.values == values:
                    known.read_at = now
                    return known
                cluster = Hub(connect(values), interval_seconds=self._find_seconds)
            except InvalidConfiguration:
                self._forget(name)
                raise
            self._forget(name)
            made = self._known[name] = _Known(values, cluster, now)
            return made

    def _forget(self, name: str) -> None:
        """Give the cluster to no one any more; who uses it right now may go on."""
        known = self._known.pop(name, None)
        if known is not None:
            self._replaced.append(known.cluster)


def connect(values: Values) -> Cluster:
    """The cluster that a connection describes. Contacts nothing."""
    found = kinds()
    kind = found.get(values.connection_type)
    if kind is None:
        raise InvalidConfiguration(
            f"the Airflow connection {values.name!r} has the type {values.connection_type!r}, which"
            f" is no cluster of dispatch: use one of {', '.join(sorted(found)) or 'none'}"
        )
    return kind.connect(values.name, values.settings)


async def probed(values: Values) -> Capabilities:
    """What the cluster of a connection says of itself, asked once and let go."""
    cluster = connect(values)
    try:
        return await cluster.probe()
    finally:
        await cluster.close()


@cache
def kinds() -> dict[str, ClusterKind]:
    """The kinds of cluster that are installed, by connection type."""
    found: dict[str, ClusterKind] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        kind = _loaded(entry)
        if kind is not None:
            found.setdefault(kind.connection_type, kind)
    return found


def _loaded(entry: EntryPoint) -> ClusterKind | None:
    try:
        kind: ClusterKind = entry.load()
    except Exception:  # Somebody's broken adapter must not cost the others.
        log.exception("The cluster adapter %r (%s) cannot be loaded", entry.name, entry.value)
        return None
    return kind
