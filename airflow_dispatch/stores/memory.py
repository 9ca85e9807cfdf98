"""The Store port in dictionaries: for tests, for simulation, and to read what a store does.

It promises what every store promises, within one event loop: no method waits in the middle, so each
is atomic. Its clock is the callable it is given, so that a simulation can let leases expire.
Nothing survives the process, and no reply is ever lost here: whoever wants an `Unknown` wraps it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from airflow_dispatch import limits
from airflow_dispatch.core import folding
from airflow_dispatch.core.commits import Commit
from airflow_dispatch.core.identity import JobKey, TaskKey
from airflow_dispatch.core.record import Record
from airflow_dispatch.errors import InvalidConfiguration, ensure
from airflow_dispatch.ports.store import (
    Conflict,
    Displaced,
    Entry,
    Exists,
    Filter,
    Health,
    Lease,
    Owned,
    Page,
    Stored,
    Unknown,
)


class MemoryStore:
    """Records by key, in the order in which they were created."""

    def __init__(self, now: Callable[[], datetime], deployment: str) -> None:
        self._now = now
        self._deployment = deployment
        self._records: dict[JobKey, Record] = {}
        self._histories: dict[JobKey, list[Commit]] = {}
        self._ids: set[str] = set()
        self._leases: dict[JobKey, Lease] = {}
        self._epochs: dict[JobKey, int] = {}

    async def deployment(self) -> str:
        """The id that the store was made with."""
        return self._deployment

    async def create(self, first: Commit) -> Stored | Exists | Unknown:
        """Keep the record, or find that the key is taken."""
        record = folding.begin(first)
        key = record.state.key
        if key in self._records:
            return Stored(record) if self._landed(record, first) else Exists()
        ensure(first.id not in self._ids, f"commit id {first.id} was used for another record")
        self._keep(record, first)
        return Stored(record)

    async def load(self, key: JobKey) -> Record | None:
        """The record of that key."""
        return self._records.get(key)

    async def latest(self, task: TaskKey) -> Record | None:
        """The record of the task's highest generation."""
        found = (record for key, record in self._records.items() if key.task == task)
        return max(found, key=lambda record: record.state.key.generation, default=None)

    async def commit(
        self, base: Record, commit: Commit, *, lease: Lease | None = None
    ) -> Stored | Conflict | Displaced | Unknown:
        """Keep the next revision where `base` still stands; otherwise say why it does not."""
        record = folding.apply(base, commit)
        if self._landed(record, commit):
            return Stored(record)
        if lease is not None and not self._ours(lease):
            return Displaced()
        current = self._records.get(base.state.key)
        if current is None or current.revision != base.revision or commit.id in self._ids:
            return Conflict()
        self._keep(record, commit)
        return Stored(record)

    async def history(self, key: JobKey, *, after: int = 0, limit: int = 500) -> tuple[Entry, ...]:
        """The commits above a revision, in order."""
        entries = (Entry(n, c) for n, c in enumerate(self._histories.get(key, ()), start=1))
        return tuple(entry for entry in entries if entry.revision > after)[: _page(limit)]

    async def list(self, wanted: Filter, *, cursor: str | None = None, limit: int = 100) -> Page:
        """One page; the cursor is the digest of the last record of the page before."""
        keys = [*reversed(self._records)]
        if cursor is not None:
            digests = [key.digest for key in keys]
            if cursor not in digests:
                raise InvalidConfiguration(
                    f"cursor {cursor!r} names no record: take it from the page before"
                )
            keys = keys[digests.index(cursor) + 1 :]
        found = [record for record in map(self._records.__getitem__, keys) if _fits(wanted, record)]
        records = tuple(found[: _page(limit)])
        more = len(found) > len(records)
        return Page(records, records[-1].state.key.digest if more else None)

    async def claim(self, key: JobKey, owner: str, *, seconds: float) -> Lease | Owned:
        """Take the lease if it is free, expired or ours."""
        held = await self.owner(key)
        if held is not None and held.owner != owner:
            return held
        epoch = self._epochs[key] = self._epochs.get(key, 0) + 1
        lease = self._leases[key] = Lease(key, owner, epoch, self._in(seconds))
        return lease

    async def renew(self, lease: Lease, *, seconds: float) -> Lease | Displaced:
        """Prolong the lease where owner and epoch are still these."""
        if not self._ours(lease):
            return Displaced()
        renewed = self._leases[lease.key] = replace(lease, expires_at=self._in(seconds))
        return renewed

    async def yield_(self, lease: Lease) -> None:
        """Free the lease where owner and epoch are still these."""
        if self._ours(lease):
            self._leases[lease.key] = replace(lease, owner="", expires_at=self._now())

    async def owner(self, key: JobKey) -> Owned | None:
        """Who holds an unexpired lease."""
        lease = self._leases.get(key)
        if lease is None or lease.expires_at <= self._now():
            return None
        return Owned(lease.owner, lease.expires_at)

    async def last_leases(self, keys: tuple[JobKey, ...]) -> dict[JobKey, Owned]:
        """The leases as they are, expired and given back ones too."""
        found = ((key, self._leases.get(key)) for key in keys)
        return {key: Owned(one.owner, one.expires_at) for key, one in found if one is not None}

    async def claimable(
        self, *, cluster: str | None = None, after: JobKey | None = None, limit: int = 100
    ) -> tuple[JobKey, ...]:
        """Open records that nobody holds, oldest first."""
        keys = [*self._records]
        begin = 0 if after is None else keys.index(after) + 1
        found = [
            key
            for key, record in ((key, self._records[key]) for key in keys[begin:])
            if not record.state.settled_revision
            and cluster in (None, record.state.cluster)
            and await self.owner(key) is None
        ]
        return tuple(found[: _page(limit)])

    async def health(self) -> Health:
        """The time; there is no schema to be wrong."""
        return Health(self._now(), "memory")

    async def close(self) -> None:
        """There are no connections to give back."""

    def _keep(self, record: Record, commit: Commit) -> None:
        self._records[record.state.key] = record
        self._histories.setdefault(record.state.key, []).append(commit)
        self._ids.add(commit.id)

    def _landed(self, record: Record, commit: Commit) -> bool:
        """Whether this very commit is on record at that revision."""
        history = self._histories.get(record.state.key, [])
        return len(history) >= record.revision and history[record.revision - 1] == commit

    def _ours(self, lease: Lease) -> bool:
        held = self._leases.get(lease.key)
        return held is not None and (held.owner, held.epoch) == (lease.owner, lease.epoch)

    def _in(self, seconds: float) -> datetime:
        return self._now() + timedelta(seconds=seconds)


def _page(limit: int) -> int:
    return max(1, min(limit, limits.PAGE_ROWS_MAX))


def _fits(wanted: Filter, record: Record) -> bool:
    state = record.state
    task = state.key.task
    pairs = (
        (wanted.deployment, task.deployment),
        (wanted.dag_id, task.dag_id),
        (wanted.run_id, task.run_id),
        (wanted.task_id, task.task_id),
        (wanted.map_index, task.map_index),
        (wanted.cluster, state.cluster),
        (wanted.settled, state.settled_revision > 0),
        (wanted.outcome, state.outcome.state if state.outcome else None),
    )
    prefix = (wanted.digest_prefix or "").lower()
    return all(want in (None, has) for want, has in pairs) and state.key.digest.startswith(prefix)
