"""The Store port on a SQL database: each commit is one conditional UPDATE and one INSERT.

- A commit changes a row only where the row still has the revision that it was decided from, so of
  two writers at one revision exactly one finds its row. No lock is held between statements of
  different calls. [no-lock-needed]
- The history is only ever inserted into; the unique id of a commit makes a second landing
  impossible, and lets whoever lost a reply see on the next read whether it landed.
- A lost reply to COMMIT is `Unknown`. Every other failure means that nothing was written:
  `StoreUnavailable`.

docs/decisions/0010-conditional-commits-in-sql.md tells why it is done so.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_dispatch import limits
from airflow_dispatch.core import folding
from airflow_dispatch.core.commits import Commit
from airflow_dispatch.core.identity import JobKey, TaskKey
from airflow_dispatch.core.record import Record
from airflow_dispatch.errors import InvalidConfiguration, StoreUnavailable, UnreadableRecord, ensure
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
from airflow_dispatch.stores.sql import leases, rows, schema, tables
from airflow_dispatch.stores.sql.database import MIGRATE, Database, ReplyLost


class SqlStore:
    """Records in a `Database`. Closing the store closes the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._jobs = rows.Jobs()

    async def deployment(self) -> str:
        """The id that was minted when the tables were made."""
        async with self._database.reading() as connection:
            found: str | None = await connection.scalar(sa.select(tables.deployment.c.id))
        if found is None:
            raise StoreUnavailable(
                f"the database at {self._database.address} has no deployment id: {MIGRATE}"
            )
        return found

    async def create(self, first: Commit) -> Stored | Exists | Unknown:
        """Insert the record and its first commit, or find that the key is taken."""
        record = folding.begin(first)
        key = record.state.key
        try:
            async with self._database.writing() as connection:
                job = {**rows.constant(record), **rows.changing(record)}
                await connection.execute(sa.insert(tables.job).values(job))
                await self._log(connection, record, first)
        except ReplyLost as lost:
            return Unknown(str(lost))
        except IntegrityError:
            if await self._landed(record, first):
                return Stored(record)
            ensure(await self.load(key), f"commit id {first.id} was used for another record")
            return Exists()
        return Stored(record)

    async def load(self, key: JobKey) -> Record | None:
        """Read the record in a transaction of its own."""
        job = self._jobs.get(key.digest)
        wanted = tables.job.c.digest == key.digest
        if job is None:
            return await self._one(_WITH_JOB.where(wanted))
        async with self._database.reading() as connection:
            row = (await connection.execute(_WITHOUT_JOB.where(wanted))).one_or_none()
        return None if row is None else rows.record(row, job)

    async def latest(self, task: TaskKey) -> Record | None:
        """Read the record of the highest generation in a transaction of its own."""
        newest = tables.job.c.generation.desc()
        wanted = _WITH_JOB.where(tables.job.c.task_digest == task.digest)
        return await self._one(wanted.order_by(newest).limit(1))

    async def commit(
        self, base: Record, commit: Commit, *, lease: Lease | None = None
    ) -> Stored | Conflict | Displaced | Unknown:
        """Write the next revision where `base` still stands; otherwise find out why it does not."""
        record = folding.apply(base, commit)
        try:
            async with self._database.writing() as connection:
                moved = await self._move(connection, base, record, lease)
                if moved:
                    await self._log(connection, record, commit)
        except ReplyLost as lost:
            return Unknown(str(lost))
        except IntegrityError:  # The id is in the history already: nothing was written this time.
            moved = False
        if moved or await self._landed(record, commit):
            return Stored(record)
        if lease is not None and not await leases.held(self._database, lease):
            return Displaced()
        return Conflict()

    async def _move(
        self, connection: AsyncConnection, base: Record, record: Record, lease: Lease | None
    ) -> bool:
        job = tables.job
        moving = sa.update(job).where(
            job.c.digest == base.state.key.digest, job.c.revision == base.revision
        )
        if lease is not None:
            moving = moving.where(sa.exists().where(*leases.is_ours(lease)))
        result = await connection.execute(moving.values(rows.changing(record)))
        ensure(result.rowcount in (0, 1), "a key names one record")
        return bool(result.rowcount == 1)

    async def _log(self, connection: AsyncConnection, record: Record, commit: Commit) -> None:
        line = rows.of_commit(record.state.key, record.revision, commit)
        await connection.execute(sa.insert(tables.commit).values(line))

    async def _landed(self, record: Record, commit: Commit) -> bool:
        """Whether this very commit is on record as the record's last one."""
        line = rows.of_commit(record.state.key, record.revision, commit)
        same = (tables.commit.c[name] == value for name, value in line.items())
        async with self._database.reading() as connection:
            found = await connection.scalar(sa.select(sa.exists().where(*same)))
        return bool(found)

    async def _one(self, statement: sa.Select[Any]) -> Record | None:
        async with self._database.reading() as connection:
            row = (await connection.execute(statement)).one_or_none()
        return None if row is None else self._record(row)

    def _record(self, row: sa.Row[Any]) -> Record:
        with rows.named(row):
            job = self._jobs.decoded(row.digest, row.first_body)
        return rows.record(row, job)

    async def history(self, key: JobKey, *, after: int = 0, limit: int = 500) -> tuple[Entry, ...]:
        """Read the commits above a revision, in order."""
        commit = tables.commit
        wanted = (
            sa.select(commit)
            .where(commit.c.job == key.digest, commit.c.revision > after)
            .order_by(commit.c.revision)
            .limit(_page(limit))
        )
        async with self._database.reading() as connection:
            found = (await connection.execute(wanted)).all()
        return tuple(map(rows.entry, found))

    async def list(self, wanted: Filter, *, cursor: str | None = None, limit: int = 100) -> Page:
        """Read one page; the cursor is the digest of the last record of the page before."""
        job = tables.job
        statement = _WITH_JOB.where(*_matching(wanted))
        async with self._database.reading() as connection:
            if cursor is not None:
                statement = statement.where(await _after(connection, cursor))
            statement = statement.order_by(job.c.created_at.desc(), job.c.digest.desc())
            found = (await connection.execute(statement.limit(_page(limit) + 1))).all()
        rows_here = found[: _page(limit)]
        records: list[Record] = []
        unreadable: list[str] = []
        for row in rows_here:
            try:
                records.append(self._record(row))
            except UnreadableRecord as error:  # noqa: PERF203 - one must not hide the others
                unreadable.append(str(error))
        cursor = rows_here[-1].digest if len(found) > len(rows_here) else None
        return Page(tuple(records), cursor, tuple(unreadable))

    async def claim(self, key: JobKey, owner: str, *, seconds: float) -> Lease | Owned:
        """Take the lease by one upsert that only a free, expired or own lease lets through."""
        return await leases.claim(self._database, key, owner, seconds=seconds)

    async def renew(self, lease: Lease, *, seconds: float) -> Lease | Displaced:
        """Prolong the lease where owner and epoch are still these."""
        return await leases.renew(self._database, lease, seconds=seconds)

    async def yield_(self, lease: Lease) -> None:
        """Free the lease where owner and epoch are still these; the next epoch is higher."""
        await leases.yield_(self._database, lease)

    async def owner(self, key: JobKey) -> Owned | None:
        """Read who holds an unexpired lease."""
        return await leases.owner(self._database, key)

    async def last_leases(self, keys: tuple[JobKey, ...]) -> dict[JobKey, Owned]:
        """Read the lease of each record, expired and given back ones too."""
        return await leases.last(self._database, keys)

    async def claimable(
        self, *, cluster: str | None = None, after: JobKey | None = None, limit: int = 100
    ) -> tuple[JobKey, ...]:
        """Read which open records nobody holds."""
        job = tables.job
        wanted = (
            sa.select(*_KEY)
            .where(job.c.settled.is_(False), ~sa.exists().where(*leases.is_held(job.c.digest)))
            .order_by(job.c.created_at, job.c.digest)
            .limit(_page(limit))
        )
        if cluster is not None:
            wanted = wanted.where(job.c.cluster == cluster)
        if after is not None:
            made = sa.select(job.c.created_at).where(job.c.digest == after.digest).scalar_subquery()
            same = sa.and_(job.c.created_at == made, job.c.digest > after.digest)
            wanted = wanted.where(sa.or_(job.c.created_at > made, same))
        async with self._database.reading() as connection:
            found = (await connection.execute(wanted)).all()
        return tuple(map(rows.key, found))

    async def health(self) -> Health:
        """Read the clock and the schema's revision; refuse any other than this program's."""
        version = sa.table(schema.VERSION_TABLE, sa.column("version_num", sa.String))
        found = sa.select(version.c.version_num).scalar_subquery()
        # To ask each table for a row fails where one is missing.
        probes = (sa.exists().select_from(table) for table in tables.metadata.sorted_tables)
        statement = sa.select(tables.database_now().label("now"), found.label("found"), *probes)
        async with self._database.reading() as connection:
            row = (await connection.execute(statement)).one()
        if row.found != schema.HEAD:
            raise StoreUnavailable(
                f"the tables of dispatch at {self._database.address} have revision "
                f"{row.found or 'none'} and this version needs {schema.HEAD}: {MIGRATE} with the "
                "newest airflow-dispatch that runs anywhere here"
            )
        await self.deployment()
        return Health(row.now, row.found)

    async def close(self) -> None:
        """Close the database's connections."""
        await self._database.close()


_FIRST = tables.commit.alias("first")
_KEY = [tables.job.c[name] for name in rows.KEY_COLUMNS]
_WITHOUT_JOB = sa.select(*(tables.job.c[name] for name in rows.RECORD_COLUMNS))
_WITH_JOB = _WITHOUT_JOB.add_columns(_FIRST.c.body.label("first_body")).join_from(
    tables.job, _FIRST, sa.and_(_FIRST.c.job == tables.job.c.digest, _FIRST.c.revision == 1)
)


def _page(limit: int) -> int:
    return max(1, min(limit, limits.PAGE_ROWS_MAX))


def _matching(wanted: Filter) -> list[sa.ColumnElement[bool]]:
    job = tables.job
    equal = {
        job.c.deployment: wanted.deployment,
        job.c.dag_id: wanted.dag_id,
        job.c.run_id: wanted.run_id,
        job.c.task_id: wanted.task_id,
        job.c.map_index: wanted.map_index,
        job.c.cluster: wanted.cluster,
        job.c.settled: wanted.settled,
        job.c.outcome: wanted.outcome.value if wanted.outcome else None,
    }
    found = [column == value for column, value in equal.items() if value is not None]
    if wanted.digest_prefix is not None:
        prefix = wanted.digest_prefix.lower()
        found.append(job.c.digest.startswith(prefix, autoescape=True))
    return found


async def _after(connection: AsyncConnection, cursor: str) -> sa.ColumnElement[bool]:
    """What comes after the record of that digest, newest first."""
    job = tables.job
    created = await connection.scalar(sa.select(job.c.created_at).where(job.c.digest == cursor))
    if created is None:
        raise InvalidConfiguration(
            f"cursor {cursor!r} names no record: take it from the page before"
        )
    older = job.c.created_at < created
    return sa.or_(older, sa.and_(job.c.created_at == created, job.c.digest < cursor))
