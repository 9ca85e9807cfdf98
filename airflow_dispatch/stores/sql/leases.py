"""Leases in `dispatch_owner`: who looks after a record, until when, by the database's clock.

They keep two supervisors from doing the same work and show who is alive; nothing rests on them for
safety [no-lock-needed]. A row is made by the first claim and stays: its epoch only grows, so an old
lease never fits again. A lease that was given back names no owner; one that expired still names its
own until somebody else takes it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_dispatch import limits
from airflow_dispatch.core.identity import JobKey
from airflow_dispatch.errors import StoreUnavailable
from airflow_dispatch.ports.store import Displaced, Lease, Owned
from airflow_dispatch.stores.sql.database import Database
from airflow_dispatch.stores.sql.tables import database_now
from airflow_dispatch.stores.sql.tables import owner as table


def is_ours(lease: Lease) -> tuple[sa.ColumnElement[bool], ...]:
    """The lease's row has its owner and epoch, expired or not."""
    return (
        table.c.job == lease.key.digest,
        table.c.owner == lease.owner,
        table.c.epoch == lease.epoch,
    )


def is_held(job: sa.ColumnElement[str] | str) -> tuple[sa.ColumnElement[bool], ...]:
    """Somebody holds an unexpired lease on the record."""
    return (table.c.job == job, table.c.owner.is_not(None), table.c.expires_at > database_now())


async def claim(database: Database, key: JobKey, owner: str, *, seconds: float) -> Lease | Owned:
    """Take a lease that is new, free, expired or ours; otherwise say who holds it."""
    insert = postgresql.insert if database.backend == "postgresql" else sqlite.insert
    first = insert(table).values(
        job=key.digest, owner=owner, epoch=1, expires_at=database_now(seconds)
    )
    claiming = first.on_conflict_do_update(
        index_elements=[table.c.job],
        set_={"owner": owner, "epoch": table.c.epoch + 1, "expires_at": database_now(seconds)},
        where=sa.or_(
            table.c.owner.is_(None), table.c.owner == owner, table.c.expires_at <= database_now()
        ),
    ).returning(table.c.epoch, table.c.expires_at)
    async with database.writing() as connection:
        taken = (await connection.execute(claiming)).one_or_none()
    if taken is not None:
        return Lease(key, owner, taken.epoch, taken.expires_at)
    async with database.reading() as connection:
        holder = (await connection.execute(_row(table.c.job == key.digest))).one_or_none()
    if holder is None or holder.owner is None:
        raise StoreUnavailable(
            f"the lease of {key} changed hands while it was claimed; claim again"
        )
    return Owned(holder.owner, holder.expires_at)


async def renew(database: Database, lease: Lease, *, seconds: float) -> Lease | Displaced:
    """Move the end of our lease."""
    renewing = (
        sa.update(table)
        .where(*is_ours(lease))
        .values(expires_at=database_now(seconds))
        .returning(table.c.expires_at)
    )
    async with database.writing() as connection:
        expires_at = await connection.scalar(renewing)
    if expires_at is None:
        return Displaced()
    return Lease(lease.key, lease.owner, lease.epoch, expires_at)


async def yield_(database: Database, lease: Lease) -> None:
    """Leave the row without an owner."""
    freeing = sa.update(table).where(*is_ours(lease)).values(owner=None, expires_at=database_now())
    async with database.writing() as connection:
        await connection.execute(freeing)


async def owner(database: Database, key: JobKey) -> Owned | None:
    """Who holds an unexpired lease."""
    async with database.reading() as connection:
        found = (await connection.execute(_row(*is_held(key.digest)))).one_or_none()
    return None if found is None else Owned(found.owner, found.expires_at)


async def last(database: Database, keys: tuple[JobKey, ...]) -> dict[JobKey, Owned]:
    """Who held the lease of each record last, in statements of a bounded size."""
    by_digest = {key.digest: key for key in keys}
    digests, found = list(by_digest), {}
    async with database.reading() as connection:
        for start in range(0, len(digests), limits.PAGE_ROWS_MAX):
            some = digests[start : start + limits.PAGE_ROWS_MAX]
            wanted = _row(table.c.job.in_(some)).add_columns(table.c.job)
            for row in await connection.execute(wanted):
                found[by_digest[row.job]] = Owned(row.owner or "", row.expires_at)
    return found


async def held(database: Database, lease: Lease) -> bool:
    """Whether the lease is still ours."""
    async with database.reading() as connection:
        found = await connection.scalar(sa.select(sa.exists().where(*is_ours(lease))))
    return bool(found)


def _row(*wanted: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(table.c.owner, table.c.expires_at).where(*wanted)
