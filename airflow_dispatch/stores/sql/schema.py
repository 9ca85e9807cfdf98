"""Makes, upgrades and takes away the tables; mints the deployment's id.

Airflow does it through `airflow_dispatch.db.manager` with its own synchronous engine; tests and
tools that have only a URL use the coroutines at the end. A new installation is made by `create_all`
and marked with the newest revision, an older one is upgraded revision by revision; both come to the
same schema.

Open records are runs that somebody must look after: `open_records` counts them, so that nobody
drops them unknowingly.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import sqlalchemy as sa

from airflow_dispatch.stores.sql import tables
from airflow_dispatch.stores.sql.database import Database

HEAD = "0001"
"""The newest revision in `migrations/versions`."""
VERSION_TABLE = "alembic_version_dispatch"
MIGRATIONS = Path(__file__).parent / "migrations"
ALEMBIC_INI = MIGRATIONS / "alembic.ini"


def is_ours(name: str | None, kind: str, _parents: object = None) -> bool:
    """Whether a table of the metadata database is one of ours, for Alembic's comparisons."""
    return kind != "table" or name in tables.metadata.tables


def mint(connection: sa.Connection) -> str:
    """Give the deployment an id unless it has one; return it. The caller commits."""
    found = connection.scalar(sa.select(tables.deployment.c.id))
    if found is not None:
        return str(found)
    minted = uuid.uuid4().hex
    row = {
        "one": 1,
        "id": minted,
        "fingerprint": fingerprint(connection),
        "minted_at": tables.database_now(),
    }
    connection.execute(sa.insert(tables.deployment).values(row))
    return minted


def fingerprint(connection: sa.Connection) -> str:
    """What tells this database from a copy of it."""
    if connection.dialect.name == "postgresql":
        found = connection.execute(
            sa.text(
                "SELECT system_identifier::text, oid::text FROM pg_control_system(), pg_database "
                "WHERE datname = current_database()"
            )
        ).one()
        return f"postgresql:{found[0]}:{found[1]}"
    main = sa.text("SELECT file FROM pragma_database_list WHERE name = 'main'")
    status = Path(str(connection.scalar(main))).stat()
    return f"sqlite:{status.st_dev}:{status.st_ino}"


def open_records(connection: sa.Connection) -> int:
    """How many records are not settled; 0 where there is no table."""
    if not sa.inspect(connection).has_table(tables.job.name):
        return 0
    unsettled = sa.select(sa.func.count()).where(tables.job.c.settled.is_(False))
    return int(connection.scalar(unsettled.select_from(tables.job)) or 0)


async def create_all(url: str) -> None:
    """Make the tables of a new installation, marked with the newest revision, and mint the id."""

    def create(connection: sa.Connection) -> None:
        tables.metadata.create_all(connection)
        _alembic("stamp", connection, "head")
        mint(connection)

    await _on(url, create)


async def migrate(url: str, revision: str = "head") -> None:
    """Upgrade to a revision by the migrations, and mint the id if there is none."""

    def upgrade(connection: sa.Connection) -> None:
        _alembic("upgrade", connection, revision)
        mint(connection)

    await _on(url, upgrade)


async def downgrade(url: str, revision: str) -> None:
    """Go back to an older revision; `base` drops the tables with all that they hold."""
    await _on(url, lambda connection: _alembic("downgrade", connection, revision))


async def _on(url: str, change: Callable[[sa.Connection], None]) -> None:
    database = Database(url)
    if database.backend == "sqlite":
        Path(sa.make_url(url).database or "").touch()  # noqa: ASYNC240 - a tool, alone in its loop
    try:
        async with database.writing() as connection:
            await connection.run_sync(change)
    finally:
        await database.close()


def _alembic(command: str, connection: sa.Connection, revision: str) -> None:
    from alembic import command as commands  # noqa: PLC0415 - slow to import, and only needed here
    from alembic.config import Config  # noqa: PLC0415 - the same

    config = Config(ALEMBIC_INI)
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    getattr(commands, command)(config, revision)
