"""What a store says when its database fails, stalls or goes away, and how it goes on afterwards."""

import asyncio
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from airflow_dispatch import limits
from airflow_dispatch.core.identity import JobKey
from airflow_dispatch.errors import InvariantBroken, StoreUnavailable, UnreadableRecord
from airflow_dispatch.ports.store import Filter, Lease, Stored, Unknown
from airflow_dispatch.stores.sql import database as databases
from airflow_dispatch.stores.sql import schema, tables
from airflow_dispatch.stores.sql.database import Database
from airflow_dispatch.stores.sql.store import SqlStore
from airflow_dispatch.testing.store_samples import adopted, begun, committed, made
from tests.conformance.stores.conftest import opened
from tests.support.postgres import PASSWORD, Postgres, running_postgres, running_standby
from tests.support.proxy import Cut, Proxy

POSTGRES = [pytest.param("postgresql", marks=pytest.mark.postgres)]
only_postgres = pytest.mark.parametrize("backend", POSTGRES)


@pytest.fixture
async def store(shared_url: str) -> AsyncIterator[SqlStore]:
    """A client of the shared database."""
    async with opened(shared_url) as one:
        yield one


@pytest.fixture
async def another(shared_url: str) -> AsyncIterator[SqlStore]:
    """Another client of the shared database."""
    async with opened(shared_url) as one:
        yield one


async def test_no_statement_changes_history(store: SqlStore, statements: list[str]) -> None:
    """Whatever is called, the table of commits is only inserted into and read."""
    record = await made(store)
    key = record.state.key
    await store.create(begun(key))
    commit = adopted(record)
    for _ in range(2):
        await store.commit(record, commit)
    await store.commit(record, adopted(record))
    lease = await store.claim(key, "one", seconds=30)
    assert isinstance(lease, Lease)
    await store.renew(lease, seconds=30)
    await store.yield_(lease)
    await store.history(key)
    await store.list(Filter())
    writes = {one.split()[0] for one in statements if "dispatch_commit" in one}
    assert writes == {"INSERT", "SELECT"}
    assert not [one for one in statements if one.startswith("DELETE")]


async def test_a_record_that_cannot_be_read_hides_no_other(
    store: SqlStore, another: SqlStore, shared_url: str
) -> None:
    """A list names the one that only a newer version knows, and goes on behind it."""
    keys = [(await made(store)).state.key for _ in range(3)]
    database = Database(shared_url)
    async with database.writing() as connection:
        hidden = tables.job.c.digest == keys[1].digest
        await connection.execute(
            sa.update(tables.job).where(hidden).values(state='{"v": 999, "state": {}}')
        )
    await database.close()
    pages = [await another.list(Filter(), limit=1)]
    for _ in range(2):
        pages.append(await another.list(Filter(), limit=1, cursor=pages[-1].cursor))
    listed = [record.state.key for page in pages for record in page.records]
    assert {*listed} == {keys[0], keys[2]}
    (told,) = [one for page in pages for one in page.unreadable]
    assert told.startswith(f"record {keys[1].digest[:12]}: a stored record has version 999")
    with pytest.raises(UnreadableRecord, match=keys[1].digest[:12]):
        await another.load(keys[1])


async def test_a_database_belongs_to_one_loop(shared_url: str) -> None:
    """Using one database from a second event loop is a defect here, and is told as one."""
    store = SqlStore(Database(shared_url))
    await store.deployment()
    with pytest.raises(InvariantBroken, match="event loop"):
        await asyncio.to_thread(lambda: asyncio.run(store.deployment()))
    await store.close()
    await asyncio.to_thread(asyncio.run, _read_and_close(store))


async def _read_and_close(store: SqlStore) -> None:
    await store.deployment()
    await store.close()


async def test_cancelled_calls_leave_nothing_behind(store: SqlStore, another: SqlStore) -> None:
    """A call that is cancelled anywhere keeps no lock and spoils no connection for the next one."""
    key = (await made(store)).state.key
    for tenths in range(40):
        record = await store.load(key)
        assert record is not None
        call = asyncio.ensure_future(store.commit(record, adopted(record)))
        await asyncio.sleep(tenths / 10_000)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await asyncio.wait_for(_add_one(another, record.state.key), 10)
    history = await another.history(key)
    last = await store.load(key)
    assert last is not None
    assert last.revision == len(history) == last.state.binding.clear_number + 1
    assert last.revision > 40


async def _add_one(store: SqlStore, key: JobKey) -> None:
    found: object = None
    while not isinstance(found, Stored):
        record = await store.load(key)
        assert record is not None
        found = await store.commit(record, adopted(record))


async def test_a_locked_record_is_not_waited_for_without_end(
    shared_url: str, another: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever holds the row or the file: the call ends, and says that nothing was written."""
    monkeypatch.setattr(limits, "SQLITE_BUSY_SECONDS", 0.2)
    monkeypatch.setitem(databases.POSTGRESQL_SETTINGS, "lock_timeout", "200")
    holder = Database(shared_url)
    record = await made(another)
    async with opened(shared_url) as store:
        async with holder.writing() as connection:
            await connection.execute(sa.update(tables.job).values(map_index=tables.job.c.map_index))
            with pytest.raises(StoreUnavailable, match="Nothing was written"):
                await asyncio.wait_for(store.commit(record, adopted(record)), 10)
            assert await store.load(record.state.key) == record
        assert isinstance(await store.commit(record, adopted(record)), Stored)
    await holder.close()


async def test_sessions_have_their_limits(backend: str, store: SqlStore, shared_url: str) -> None:
    """What bounds a session and makes its commits durable is set, whatever the server's default."""
    shown: dict[str, dict[str, object]] = {
        "postgresql": {
            "SHOW lock_timeout": f"{limits.STORE_LOCK_SECONDS}s",
            "SHOW idle_in_transaction_session_timeout": f"{limits.STORE_IDLE_SECONDS}s",
            "SHOW statement_timeout": "0",
            "SHOW synchronous_commit": "on",
            "SHOW transaction_isolation": "read committed",
        },
        "sqlite": {
            "PRAGMA synchronous": 2,
            "PRAGMA busy_timeout": limits.SQLITE_BUSY_SECONDS * 1000,
        },
    }
    database = Database(shared_url)
    async with database.writing() as connection:
        found = {text: await connection.scalar(sa.text(text)) for text in shown[backend]}
    await database.close()
    assert found == shown[backend]


async def test_a_writer_may_read_first(shared_url: str) -> None:
    """Two transactions that read and then write both succeed: the second waits for the first."""
    database = Database(shared_url)

    async def read_then_write() -> None:
        async with database.writing() as connection:
            await connection.execute(sa.select(tables.owner).limit(1))
            await asyncio.sleep(0.05)
            nobody = sa.update(tables.owner).where(tables.owner.c.job == "nobody")
            await connection.execute(nobody.values(epoch=1))

    await asyncio.gather(*(read_then_write() for _ in range(3)))
    await database.close()


async def test_a_lease_counts_from_when_it_was_taken(
    store: SqlStore, another: SqlStore, shared_url: str
) -> None:
    """A claim that had to wait for somebody's lock gets its whole time all the same."""
    key = (await made(store)).state.key
    await store.claim(key, "one", seconds=30)
    holder = Database(shared_url)
    async with holder.writing() as connection:
        ours = sa.update(tables.owner).where(tables.owner.c.job == key.digest)
        await connection.execute(ours.values(epoch=5))
        claiming = asyncio.ensure_future(another.claim(key, "one", seconds=0.4))
        await asyncio.sleep(0.6)
    lease = await claiming
    assert isinstance(lease, Lease)
    assert lease.epoch == 6
    assert await store.owner(key) is not None
    await holder.close()


@only_postgres
async def test_a_stalled_writer_loses_its_lock(
    shared_url: str, another: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that stops in the middle of a transaction is rolled back, and others go on."""
    monkeypatch.setitem(databases.POSTGRESQL_SETTINGS, "idle_in_transaction_session_timeout", "200")
    stalled = Database(shared_url)
    record = await made(another)

    async def stall() -> None:
        async with stalled.writing() as connection:
            await connection.execute(sa.update(tables.job).values(map_index=7))
            await asyncio.sleep(0.5)

    with pytest.raises(StoreUnavailable):
        await stall()
    assert isinstance(await another.commit(record, adopted(record)), Stored)
    async with stalled.reading() as connection:
        sevens = sa.select(sa.func.count()).where(tables.job.c.map_index == 7)
        assert await connection.scalar(sevens) == 0
    await stalled.close()


@pytest.fixture
async def proxy(postgres: Postgres) -> AsyncIterator[Proxy]:
    """A proxy before the shared server."""
    async with Proxy(postgres.port).listening() as one:
        yield one


@only_postgres
async def test_a_restart_of_the_server_costs_no_call(
    shared_url: str, postgres: Postgres, proxy: Proxy
) -> None:
    """Connections that died in the pool are replaced before anybody uses them."""
    async with opened(postgres.url(port=proxy.port)) as store:
        record = await made(store)
        await asyncio.gather(*(store.load(record.state.key) for _ in range(8)))
        proxy.drop()
        await asyncio.sleep(0.05)
        assert await store.load(record.state.key) == record
        assert isinstance(await store.commit(record, adopted(record)), Stored)


@only_postgres
async def test_a_silent_network_is_not_waited_for_without_end(
    shared_url: str, postgres: Postgres, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement without an answer ends unavailable, a COMMIT without one ends unknown."""
    for limit in ("STORE_COMMAND_SECONDS", "STORE_CONNECT_SECONDS"):
        monkeypatch.setattr(limits, limit, 0.3)
    async with opened(postgres.url(port=proxy.port)) as store:
        record = await made(store)
        proxy.cut = Cut.NEVER
        found = await asyncio.wait_for(store.commit(record, adopted(record)), 20)
        assert isinstance(found, Unknown)
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(store.load(record.state.key), 20)
        proxy.flows.set()
        newer = await store.load(record.state.key)
        assert newer is not None
        assert isinstance(await store.commit(newer, adopted(newer)), Stored)


@pytest.mark.postgres
async def test_a_standby_is_refused() -> None:
    """A server that may answer from the past is not read, whatever it holds."""
    with running_postgres() as primary, running_standby(primary) as standby:
        assert standby.sql("SELECT pg_is_in_recovery()") == "t"
        await schema.create_all(primary.url())
        async with opened(primary.url()) as store:
            key = (await made(store)).state.key
        async with opened(standby.url()) as store:
            with pytest.raises(StoreUnavailable):
                await store.load(key)


@pytest.mark.postgres
@pytest.mark.parametrize("wrong", ["password", "database", "port", "host"])
async def test_no_message_tells_the_password(postgres: Postgres, wrong: str) -> None:
    """Whatever is wrong with the address, nobody reads the password in the error or its causes."""
    urls = {
        "password": postgres.url().replace("%70", "%71", 1),
        "database": postgres.url("nowhere"),
        "port": postgres.url(port=1),
        "host": postgres.url().replace("127.0.0.1", "nowhere.invalid"),
    }
    assert urls[wrong] != postgres.url()
    async with opened(urls[wrong]) as store:
        with pytest.raises(StoreUnavailable) as raised:
            await store.health()
    text = "".join(traceback.format_exception(raised.value))
    assert "127.0.0.1" in text or "nowhere" in text
    for secret in (PASSWORD, PASSWORD[1:], urls[wrong].split(":")[2].split("@")[0]):
        assert secret not in text


@only_postgres
async def test_no_message_tells_what_was_to_be_written(store: SqlStore) -> None:
    """A statement that the server refuses is told without its parameters."""
    key = (await made(store)).state.key
    words = "/".join(["somebody's words"] * 20)
    with pytest.raises(StoreUnavailable, match="too long") as raised:
        await store.claim(key, words, seconds=30)
    assert "somebody's words/somebody" not in "".join(traceback.format_exception(raised.value))


def test_a_forked_process_connects_by_itself(shared_url: str) -> None:
    """A store that was used before a fork works on both sides, and neither harms the other."""
    program = Path(__file__).with_name("forking.py")
    done = subprocess.run(
        [sys.executable, program, shared_url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["child", "parent"]


async def test_another_process_sees_what_was_acknowledged(shared_url: str, store: SqlStore) -> None:
    """A process that starts after a commit was acknowledged loads it."""
    record = await made(store)
    program = Path(__file__).with_name("loading.py")
    for _ in range(2):
        record = await committed(store, record, adopted(record).body)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, program, shared_url, record.state.key.task.run_id),
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await asyncio.wait_for(process.communicate(), 60)
        assert output.split() == [b"%d" % record.revision]
