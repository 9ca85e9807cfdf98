"""Airflow's own `airflow db` commands make, check, upgrade and drop the tables of dispatch.

Each command is a process of its own, as an operator runs it, on a private SQLite metadata database.
"""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from airflow_dispatch.core.record import Record
from airflow_dispatch.stores.sql import schema, tables
from airflow_dispatch.stores.sql.database import Database
from airflow_dispatch.stores.sql.store import SqlStore
from airflow_dispatch.testing.store_samples import SETTLED, committed, made

MANAGER = "airflow_dispatch.db.manager.DispatchDBManager"
T = TypeVar("T")


@dataclass(frozen=True)
class Installation:
    """A private Airflow home with its metadata database."""

    home: Path

    @property
    def url(self) -> str:
        """The metadata database."""
        return f"sqlite:///{self.home / 'airflow.db'}"

    def airflow(self, *words: str, fails: bool = False, **environment: str) -> str:
        """What an `airflow` command prints; it must succeed, or fail."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("AIRFLOW", "DISPATCH"))
        }
        ours = {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self.url,
            "AIRFLOW__DATABASE__EXTERNAL_DB_MANAGERS": MANAGER,
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        }
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *words],
            env={**kept, **ours, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        output = done.stdout + done.stderr
        assert (done.returncode != 0) is fails, output[-4000:]
        return output

    def with_store(self, use: Callable[[SqlStore], Coroutine[Any, Any, T]]) -> T:
        """What a coroutine function of the store returns."""

        async def run() -> T:
            store = SqlStore(Database(self.url))
            try:
                return await use(store)
            finally:
                await store.close()

        return asyncio.run(run())

    def table_names(self) -> set[str]:
        """Every table that the database has."""
        connection = sqlite3.connect(self.home / "airflow.db")
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        connection.close()
        return {name for (name,) in names}


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """What `airflow db migrate` makes; the tests use it one after the other."""
    new = Installation(tmp_path_factory.mktemp("airflow"))
    new.airflow("db", "migrate")
    return new


def test_migrate_makes_the_tables(installation: Installation) -> None:
    """After `airflow db migrate` the store is healthy, and Airflow finds nothing to migrate."""
    assert installation.with_store(SqlStore.health).schema == schema.HEAD
    assert len(installation.with_store(SqlStore.deployment)) == 32
    installation.airflow("db", "check-migrations", "--migration-wait-timeout", "5")


def test_migrating_again_keeps_the_deployment(installation: Installation) -> None:
    """A second `airflow db migrate` changes neither id nor records."""
    deployment = installation.with_store(SqlStore.deployment)
    installation.airflow("db", "migrate")
    assert installation.with_store(SqlStore.deployment) == deployment


def test_open_records_are_not_dropped(installation: Installation) -> None:
    """Neither a downgrade nor a reset takes an open record; migrate mends the rest."""
    deployment = installation.with_store(SqlStore.deployment)
    record = installation.with_store(made)
    downgrade = ("db-manager", "downgrade", MANAGER, "-r", "base", "-y")
    for command in (downgrade, ("db", "reset", "-y")):
        output = installation.airflow(*command, fails=True)
        assert "1 dispatch record(s) are not settled" in output
        assert "DISPATCH_DROP_OPEN_RECORDS=1" in output
        assert installation.with_store(lambda s: s.load(record.state.key)) == record
    installation.airflow("db", "migrate")
    assert installation.with_store(SqlStore.deployment) == deployment
    assert installation.with_store(lambda s: s.load(record.state.key)) == record
    assert "task_instance" in installation.table_names()


def test_open_records_are_dropped_when_told_so(installation: Installation) -> None:
    """With the flag a downgrade drops the tables; the migrations make them anew, under a new id."""
    deployment = installation.with_store(SqlStore.deployment)
    installation.with_store(made)
    downgrade = ("db-manager", "downgrade", MANAGER, "-r", "base", "-y")
    installation.airflow(*downgrade, DISPATCH_DROP_OPEN_RECORDS="1")
    assert not set(tables.metadata.tables) & installation.table_names()
    installation.airflow("db-manager", "migrate", MANAGER, "--use-migration-files")
    assert installation.with_store(SqlStore.health).schema == schema.HEAD
    assert installation.with_store(SqlStore.deployment) != deployment


def test_reset_drops_settled_records(installation: Installation) -> None:
    """`airflow db reset` makes our tables anew, as it does Airflow's own."""

    async def settled(store: SqlStore) -> Record:
        return await committed(store, await made(store), *SETTLED)

    record = installation.with_store(settled)
    installation.airflow("db", "reset", "-y")
    assert installation.with_store(lambda s: s.load(record.state.key)) is None
    assert installation.with_store(SqlStore.health).schema == schema.HEAD
