"""The two ways to our tables come to one schema, and the way back leaves nothing of them."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from airflow_dispatch.errors import StoreUnavailable
from airflow_dispatch.stores.sql import schema, tables
from airflow_dispatch.stores.sql.database import Database
from airflow_dispatch.stores.sql.store import SqlStore
from airflow_dispatch.testing.store_samples import SETTLED, committed, made

REFERENCE = Path(__file__).parents[3] / "docs/reference/tables.md"


def inspected(connection: sa.Connection) -> dict[str, Any]:
    """The schema as the database itself tells it, names and types and all."""
    inspector = sa.inspect(connection)
    found: dict[str, Any] = {}
    for table in sorted(inspector.get_table_names()):
        found[table] = {
            "columns": [
                (one["name"], str(one["type"]), one["nullable"], one["default"])
                for one in inspector.get_columns(table)
            ],
            "primary key": inspector.get_pk_constraint(table),
            "unique": sorted(inspector.get_unique_constraints(table), key=str),
            "indexes": sorted(inspector.get_indexes(table), key=str),
            "checks": sorted(inspector.get_check_constraints(table), key=str),
            "foreign keys": inspector.get_foreign_keys(table),
        }
    return found


async def look(url: str, at: Any) -> Any:
    """What a function of a connection returns for that database."""
    database = Database(url)
    async with database.reading() as connection:
        found = await connection.run_sync(at)
    await database.close()
    return found


@pytest.fixture
def another_empty_url(request: pytest.FixtureRequest, backend: str, tmp_path: Path) -> str:
    """A second database of its own."""
    if backend == "sqlite":
        return f"sqlite:///{tmp_path / 'another.db'}"
    server = request.getfixturevalue("postgres")
    name = f"another_{tmp_path.name.translate(str.maketrans('-[]', '___'))}".lower()
    server.sql(f"CREATE DATABASE {name}")
    found: str = server.url(name)
    return found


async def test_creating_and_migrating_make_one_schema(
    empty_url: str, another_empty_url: str
) -> None:
    """A new installation has the very schema of one that was upgraded revision by revision."""
    await schema.create_all(empty_url)
    await schema.migrate(another_empty_url)
    created = await look(empty_url, inspected)
    assert set(created) == {*tables.metadata.tables, schema.VERSION_TABLE}
    assert created == await look(another_empty_url, inspected)


async def test_nothing_is_left_to_generate(empty_url: str) -> None:
    """Alembic finds no difference between the migrated database and the tables in the code."""
    await schema.migrate(empty_url)

    def differences(connection: sa.Connection) -> list[Any]:
        options = {
            "include_name": schema.is_ours,
            "compare_type": True,
            "version_table": schema.VERSION_TABLE,
        }
        context = MigrationContext.configure(connection, opts=options)
        return list(compare_metadata(context, tables.metadata))

    assert await look(empty_url, differences) == []


async def test_downgrading_takes_all_away(empty_url: str) -> None:
    """Down to the base no table of ours is left, and up again everything is as before."""
    await schema.migrate(empty_url)
    before = await look(empty_url, inspected)
    await schema.downgrade(empty_url, "base")
    assert set(await look(empty_url, inspected)) == {schema.VERSION_TABLE}
    await schema.migrate(empty_url)
    assert await look(empty_url, inspected) == before


async def test_an_upgrade_keeps_id_and_records(url: str) -> None:
    """Migrating what is up to date changes nothing: the deployment's id was minted once."""
    store = SqlStore(Database(url))
    record = await made(store)
    deployment = await store.deployment()
    await schema.migrate(url)
    assert await store.deployment() == deployment
    assert await store.load(record.state.key) == record
    await store.close()


async def test_every_database_gets_another_id(empty_url: str, another_empty_url: str) -> None:
    """Ids and fingerprints of two databases differ; a fingerprint stays what it is."""
    ids, fingerprints = set(), set()
    for url in (empty_url, another_empty_url):
        await schema.migrate(url)
        store = SqlStore(Database(url))
        ids.add(await store.deployment())
        await store.close()
        fingerprints |= {await look(url, schema.fingerprint) for _ in range(2)}
        stored = sa.select(tables.deployment.c.fingerprint)
        fingerprints.add(await look(url, lambda c, stored=stored: c.scalar(stored)))
    assert len(ids) == 2
    assert len(fingerprints) == 2


async def test_a_second_id_cannot_be_kept(url: str) -> None:
    """The table of the deployment's id takes one row."""
    database = Database(url)

    async def keep(one: int) -> None:
        row = {"one": one, "id": "x", "fingerprint": "x", "minted_at": tables.database_now()}
        async with database.writing() as connection:
            await connection.execute(sa.insert(tables.deployment).values(row))

    for one in (1, 2):
        with pytest.raises(sa.exc.IntegrityError):
            await keep(one)
    await database.close()


async def test_open_records_are_counted(empty_url: str) -> None:
    """What is not settled is open; without tables there is nothing open."""
    assert await look(empty_url, schema.open_records) == 0
    await schema.create_all(empty_url)
    store = SqlStore(Database(empty_url))
    await made(store)
    record = await made(store)
    assert await look(empty_url, schema.open_records) == 2
    await committed(store, record, *SETTLED)
    assert await look(empty_url, schema.open_records) == 1
    await store.close()


async def test_missing_tables_are_told(empty_url: str) -> None:
    """Without tables every call says what to run."""
    store = SqlStore(Database(empty_url))
    for call in (store.health, store.deployment):
        with pytest.raises(StoreUnavailable, match="airflow db migrate"):
            await call()
    await store.close()


@pytest.mark.parametrize(
    "change",
    [
        f"UPDATE {schema.VERSION_TABLE} SET version_num = 'another'",
        f"DELETE FROM {schema.VERSION_TABLE}",
        f"DROP TABLE {schema.VERSION_TABLE}",
        "DELETE FROM dispatch_deployment",
        "DROP TABLE dispatch_owner",
    ],
)
async def test_a_missing_migration_is_told(url: str, change: str) -> None:
    """Another revision, a table too few or no id: health says what to run."""
    database = Database(url)
    store = SqlStore(database)
    assert (await store.health()).schema == schema.HEAD
    async with database.writing() as connection:
        await connection.execute(sa.text(change))
    with pytest.raises(StoreUnavailable, match="airflow db migrate"):
        await store.health()
    await store.close()


def test_head_is_the_newest_revision() -> None:
    """The revision that programs ask for is the one that the migrations end with, and only one."""
    config = Config(schema.ALEMBIC_INI)
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_heads() == [schema.HEAD]


def test_the_reference_names_every_column() -> None:
    """The page for operators has each table and each column, and no other table."""
    page = REFERENCE.read_text(encoding="utf-8")
    parts = page.split("\n## `")[1:]
    told = {part.partition("`")[0]: part for part in parts}
    assert set(told) == {*tables.metadata.tables, schema.VERSION_TABLE}
    for name, table in tables.metadata.tables.items():
        missing = [one.name for one in table.columns if f"| `{one.name}` |" not in told[name]]
        assert missing == [], name
