"""The databases that the store tests run on: SQLite files, and one PostgreSQL for the session."""

import asyncio
import itertools
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from airflow_dispatch.stores.sql import schema
from airflow_dispatch.stores.sql.database import Database
from airflow_dispatch.stores.sql.store import SqlStore
from tests.support.postgres import Postgres, running_postgres

BACKENDS = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server that runs until the session ends."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def empty_url(
    request: pytest.FixtureRequest, backend: str, tmp_path: Path, _numbers: Iterator[int]
) -> str:
    """The URL of a database of its own without any table."""
    if backend == "sqlite":
        return sqlite_url(tmp_path)
    server: Postgres = request.getfixturevalue("postgres")
    name = f"empty_{next(_numbers)}"
    server.sql(f"CREATE DATABASE {name}")
    return server.url(name)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """The kind of database; a test class may fix it by a parametrisation of its own."""
    found: str = request.param
    return found


@pytest.fixture
def url(empty_url: str) -> str:
    """The URL of a database of its own with our tables."""
    asyncio.run(schema.create_all(empty_url))
    return empty_url


@pytest.fixture(scope="session")
def _shared_urls(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[[str], str]:
    made: dict[str, str] = {}

    def url_of(backend: str) -> str:
        if backend not in made:
            if backend == "sqlite":
                found = sqlite_url(tmp_path_factory.mktemp("shared"))
            else:
                found = request.getfixturevalue("postgres").url()
            asyncio.run(schema.create_all(found))
            made[backend] = found
        return made[backend]

    return url_of


@pytest.fixture
def shared_url(backend: str, _shared_urls: Callable[[str], str]) -> str:
    """The URL of the database that all tests of one kind share: each makes keys of its own."""
    return _shared_urls(backend)


def sqlite_url(folder: Path) -> str:
    """The URL of a new SQLite file in WAL mode, which is how Airflow keeps its own."""
    file = folder / "metadata.db"
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    return f"sqlite:///{file}"


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[SqlStore]:
    """A store on that database, closed at the end."""
    store = SqlStore(Database(url))
    try:
        yield store
    finally:
        await store.close()


@pytest.fixture
def statements() -> Iterator[list[str]]:
    """Every statement that any engine sends while the test runs."""
    sent: list[str] = []

    def note(*arguments: object) -> None:
        sent.append(str(arguments[2]))

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    yield sent
    sa.event.remove(sa.Engine, "before_cursor_execute", note)
