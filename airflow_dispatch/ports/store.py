"""The Store port: records that change by conditional commits only.

What every store promises, and `airflow_dispatch.testing.store_suite` checks:

- `load` is linearizable: it reads the primary, in a new transaction, and sees every commit
  acknowledged before it began;
- `commit` is a compare-and-set on the revision; of two writers at one revision exactly one is
  `Stored`;
- a reply that was lost is `Unknown`, never a guess; a commit's id shows, on a later read, that it
  landed, while not to see it proves nothing: it may still land, and then only at its revision;
- history is append-only; nothing is ever rewritten;
- leases are for liveness only; they expire by the store's own clock, and the epoch grows with each
  claim.

`Conflict` carries nothing, so that nobody can decide on the new revision with an old view.
[no-lock-needed]
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from airflow_dispatch.core.commits import Commit
from airflow_dispatch.core.identity import JobKey, TaskKey
from airflow_dispatch.core.record import OutcomeState, Record


@dataclass(frozen=True, slots=True)
class Stored:
    """The commit is on record; `record` is the record with it."""

    record: Record


@dataclass(frozen=True, slots=True)
class Exists:
    """A record of this key is there already; load it and look whose it is."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Something else was committed since `base` was loaded; nothing was written.

    Load, and find, again.
    """


@dataclass(frozen=True, slots=True)
class Displaced:
    """The lease is not ours any more; nothing was written."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Whether it was written cannot be told. Load, and look for the commit's id."""

    reason: str


@dataclass(frozen=True, slots=True)
class Lease:
    """Ownership of one record until `expires_at`, by the store's clock."""

    key: JobKey
    owner: str
    epoch: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Owned:
    """Another owner holds an unexpired lease."""

    owner: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Entry:
    """One commit as the history keeps it."""

    revision: int
    commit: Commit


@dataclass(frozen=True, slots=True)
class Filter:
    """Which records to list; None means any."""

    deployment: str | None = None
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    cluster: str | None = None
    settled: bool | None = None
    outcome: OutcomeState | None = None
    digest_prefix: str | None = None
    """Start of the job key's digest, as people type it."""


@dataclass(frozen=True, slots=True)
class Page:
    """Records, newest first by creation, and where the next page begins (None: no more)."""

    records: tuple[Record, ...]
    cursor: str | None
    unreadable: tuple[str, ...] = ()
    """Of each record on this page that this version cannot read: which one, and why."""


@dataclass(frozen=True, slots=True)
class Health:
    """That the store answers, and its clock."""

    now: datetime
    schema: str
    """The revision of the schema that was found."""


class Store(Protocol):
    """Where records live. Every method raises `StoreUnavailable` where it cannot tell."""

    async def deployment(self) -> str:
        """The id of this deployment, minted when its tables were made; part of every key."""
        ...

    async def create(self, first: Commit) -> Stored | Exists | Unknown:
        """Make a record from its first commit (a `Begun`). The same commit again is `Stored`."""
        ...

    async def load(self, key: JobKey) -> Record | None:
        """The record as of now; None is positive: there is none."""
        ...

    async def latest(self, task: TaskKey) -> Record | None:
        """The record of the task's highest generation, as of now."""
        ...

    async def commit(
        self, base: Record, commit: Commit, *, lease: Lease | None = None
    ) -> Stored | Conflict | Displaced | Unknown:
        """Append the commit if the record is still at `base.revision`.

        A lease that is given must still be held, too.
        """
        ...

    async def history(self, key: JobKey, *, after: int = 0, limit: int = 500) -> tuple[Entry, ...]:
        """Commits with a revision above `after`, in order, `limit` at most."""
        ...

    async def list(self, wanted: Filter, *, cursor: str | None = None, limit: int = 100) -> Page:
        """One page of the records that match."""
        ...

    async def claim(self, key: JobKey, owner: str, *, seconds: float) -> Lease | Owned:
        """Take the lease if it is free, expired or ours; the epoch grows each time."""
        ...

    async def renew(self, lease: Lease, *, seconds: float) -> Lease | Displaced:
        """Prolong the lease, epoch unchanged, if it is still ours.

        An expired one that nobody took still is.
        """
        ...

    async def yield_(self, lease: Lease) -> None:
        """Give the lease back; nothing happens if it is not ours any more."""
        ...

    async def owner(self, key: JobKey) -> Owned | None:
        """Who holds an unexpired lease."""
        ...

    async def last_leases(self, keys: tuple[JobKey, ...]) -> dict[JobKey, Owned]:
        """Who looked after each record last and until when, for those that ever had a lease.

        A lease that was given back names no owner and ends at that moment.
        """
        ...

    async def claimable(
        self, *, cluster: str | None = None, after: JobKey | None = None, limit: int = 100
    ) -> tuple[JobKey, ...]:
        """Records that are not settled and that nobody holds, oldest first.

        With `after`, those that come after that one, whatever became of it: the next page.
        """
        ...

    async def health(self) -> Health:
        """Ask for the time and the schema; raises where either is not as it must be."""
        ...

    async def close(self) -> None:
        """Give back connections."""
        ...
