"""Conditional commits a second: the SQL store against the same statements in the bare driver.

The figure is a ratio, because times on shared machines mean little: what SQLAlchemy, the fold and
the codec cost on top of the database's own work. The server runs without fsync, which makes the
ratio as bad as it can be. Nothing is asserted of time; run with `-s` to see the figures.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator

import asyncpg
import pytest

from airflow_dispatch import limits
from airflow_dispatch.core.record import Record
from airflow_dispatch.ports.store import Stored
from airflow_dispatch.stores.sql import rows, schema
from airflow_dispatch.stores.sql.database import POSTGRESQL_SETTINGS, Database
from airflow_dispatch.stores.sql.store import SqlStore
from airflow_dispatch.testing.store_samples import adopted, made
from tests.support.postgres import Postgres, running_postgres

pytestmark = pytest.mark.postgres

COMMITS = 40
"""Of each writer in each round."""
ROUNDS = 3
UPDATE = (
    "UPDATE dispatch_job SET revision = $1, state = $2, settled = $3, outcome = $4,"
    " updated_at = clock_timestamp() WHERE digest = $5 AND revision = $6"
)
INSERT = (
    "INSERT INTO dispatch_commit (job, revision, id, kind, actor, at, body)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7)"
)

Write = Callable[[Record], Awaitable[Record]]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A server of this module's own."""
    with running_postgres() as server:
        yield server


@pytest.mark.parametrize("writers", [1, 16])
async def test_commits_against_the_bare_driver(postgres: Postgres, writers: int) -> None:
    """Every commit lands, by either way; how many a second is printed."""
    url = postgres.url()
    await schema.create_all(url)
    store = SqlStore(Database(url))
    pool = await asyncpg.create_pool(
        url.replace("+psycopg2", ""),
        min_size=limits.STORE_POOL_SIZE,
        max_size=limits.STORE_POOL_SIZE,
        server_settings=POSTGRESQL_SETTINGS,
    )

    async def through_store(record: Record) -> Record:
        found = await store.commit(record, adopted(record))
        assert isinstance(found, Stored)
        return found.record

    async def through_driver(record: Record) -> Record:
        commit = adopted(record)
        revision = record.revision + 1
        state = rows.changing(record)
        line = rows.of_commit(record.state.key, revision, commit)
        async with pool.acquire() as connection, connection.transaction():
            moved = await connection.execute(
                *(UPDATE, revision, state["state"], state["settled"], state["outcome"]),
                *(record.state.key.digest, record.revision),
            )
            assert moved == "UPDATE 1"
            await connection.execute(INSERT, *line.values())
        return Record(revision, record.state, record.job)

    rates: dict[str, list[float]] = {"store": [], "driver": []}
    for _ in range(ROUNDS):
        for name, write in (("store", through_store), ("driver", through_driver)):
            rates[name].append(await _rate(store, write, writers))
    await pool.close()
    await store.close()
    through, bare = (statistics.median(rates[name]) for name in ("store", "driver"))
    print(  # noqa: T201 - the figure is what a benchmark is for
        f"\n{writers:>2} writers: {through:.0f} commits/s through the store,"
        f" {bare:.0f} through the driver, ratio {through / bare:.2f}"
    )


async def _rate(store: SqlStore, write: Write, writers: int) -> float:
    """Commits a second of that many writers, each on a record of its own."""
    records = [await made(store) for _ in range(writers)]

    async def work(record: Record) -> Record:
        for _ in range(COMMITS):
            record = await write(record)
        return record

    began = time.perf_counter()
    done = await asyncio.gather(*map(work, records))
    took = time.perf_counter() - began
    for record in done:
        assert len(await store.history(record.state.key)) == COMMITS + 1 == record.revision
    return writers * COMMITS / took
