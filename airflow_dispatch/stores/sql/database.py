"""Opens the metadata database for one process: driver, pool, time-outs, and what a failure means.

- The URL has Airflow's form (`postgresql+psycopg2://`, `postgresql://`, `sqlite:///`); the asyncio
  driver is ours to choose.
- The engine is made on first use, in the process and the event loop that use it: Airflow forks.
- Nothing waits without bound: connecting, a statement, a lock, a place in the pool.
- A read is a transaction of its own, on the primary, and sees what was committed before it began.
- A write either says that nothing was written (`StoreUnavailable`) or, once COMMIT was sent, that
  it cannot tell (`ReplyLost`). No driver's exception leaves this module but `IntegrityError`, and
  no message holds a password.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DisconnectionError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from airflow_dispatch import limits
from airflow_dispatch.errors import InvalidConfiguration, StoreUnavailable, ensure

MIGRATE = "run `airflow db migrate`"
BACKENDS = ("postgresql", "sqlite")

# PostgreSQL's own limits of a session, in milliseconds, and what makes a commit durable. There is
# no statement_timeout: cut off while it waits for a synchronous standby, a COMMIT would be
# acknowledged without it.
POSTGRESQL_SETTINGS = {
    "application_name": "airflow-dispatch",
    "lock_timeout": str(limits.STORE_LOCK_SECONDS * 1000),
    "idle_in_transaction_session_timeout": str(limits.STORE_IDLE_SECONDS * 1000),
    "synchronous_commit": "on",
}
# What libpq takes from a URL and asyncpg would pass on to the server, which knows none of it.
LIBPQ_ONLY = (
    "channel_binding",
    "connect_timeout",
    "gssencmode",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "sslcompression",
    "tcp_user_timeout",
)


class ReplyLost(StoreUnavailable):
    """COMMIT was sent and its reply did not come: what was written is on record, or is not."""


@dataclass(frozen=True, slots=True)
class _Opened:
    engine: AsyncEngine
    loop: asyncio.AbstractEventLoop
    failures: tuple[type[BaseException], ...]


class Database:
    """One metadata database. Connects on first use; belongs to one event loop in each process."""

    def __init__(self, url: str, *, pool_size: int = limits.STORE_POOL_SIZE) -> None:
        self._url = _parsed(url)
        self._pool_size = pool_size
        # Engines of other processes stay referenced: to close what a parent opened would break the
        # parent's.
        self._opened: dict[int, _Opened] = {}

    @property
    def address(self) -> str:
        """The URL with its password hidden and without options, for messages."""
        return self._url.set(query={}).render_as_string(hide_password=True)

    @property
    def backend(self) -> str:
        """`postgresql` or `sqlite`."""
        return self._url.get_backend_name()

    @asynccontextmanager
    async def reading(self, *, snapshot: bool = False) -> AsyncIterator[AsyncConnection]:
        """A transaction that only reads; with `snapshot` all its statements see the same moment."""
        opened = self._open()
        options: dict[str, Any] = {}
        if snapshot and self.backend == "postgresql":
            options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        try:
            async with opened.engine.execution_options(**options).connect() as connection:
                yield connection
        except opened.failures as error:
            raise self._unavailable(error) from error

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction, committed at the end of the block, rolled back where the block raises.

        Raises `IntegrityError` untranslated: it tells its caller that a key is taken.
        """
        opened = self._open()
        sent = False
        try:
            async with opened.engine.execution_options(
                dispatch_writes=True
            ).connect() as connection:
                yield connection
                sent = True
                await connection.commit()
        except IntegrityError:
            raise
        except opened.failures as error:
            if sent:
                reason = f"the connection to {self.address} failed in COMMIT: {_words(error)}"
                raise ReplyLost(reason) from error
            raise self._unavailable(error) from error

    async def close(self) -> None:
        """Give back this process's connections."""
        opened = self._opened.pop(os.getpid(), None)
        if opened is not None:
            await opened.engine.dispose()

    def _open(self) -> _Opened:
        loop = asyncio.get_running_loop()
        opened = self._opened.get(os.getpid())
        if opened is None:
            make = _postgresql if self.backend == "postgresql" else _sqlite
            engine, failures = make(self._url, self._pool_size)
            opened = self._opened[os.getpid()] = _Opened(engine, loop, failures)
        ensure(opened.loop is loop, "a database belongs to the event loop that used it first")
        return opened

    def _unavailable(self, error: BaseException) -> StoreUnavailable:
        hint = f" The tables of dispatch are missing: {MIGRATE}." if _no_table(error) else ""
        return StoreUnavailable(
            f"the record store at {self.address} failed: {_words(error)}.{hint} "
            "Nothing was written; what runs goes on, and nothing new is launched meanwhile"
        )


def _parsed(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError):
        # The text may hold a password: it is neither shown nor kept as the cause.
        raise InvalidConfiguration(
            "the URL of the record store is no SQLAlchemy URL such as postgresql://user:password@host/name"
        ) from None
    if parsed.get_backend_name() not in BACKENDS:
        raise InvalidConfiguration(
            f"the record store cannot be in {parsed.get_backend_name()}: "
            "use PostgreSQL, or SQLite on one machine"
        )
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise InvalidConfiguration("the record store cannot be in memory: name a file of SQLite")
    return parsed


def _postgresql(url: sa.URL, pool_size: int) -> tuple[AsyncEngine, tuple[type[BaseException], ...]]:
    try:
        import asyncpg  # noqa: PLC0415 - an extra: only who has PostgreSQL needs it
    except ImportError as error:
        raise InvalidConfiguration(
            "records on PostgreSQL need its driver: install airflow-dispatch[postgres]"
        ) from error
    query = {name: value for name, value in url.query.items() if name not in LIBPQ_ONLY}
    dsn = url.set(drivername="postgresql", query=query).render_as_string(hide_password=False)

    async def connect() -> Any:
        # asyncpg reads the URL itself, because it knows sslmode and the like as libpq does. A
        # standby would answer from the past, so only the primary is taken.
        return await asyncpg.connect(
            dsn,
            timeout=limits.STORE_CONNECT_SECONDS,
            command_timeout=limits.STORE_COMMAND_SECONDS,
            server_settings=POSTGRESQL_SETTINGS,
            target_session_attrs="primary",
        )

    engine = _engine(
        "postgresql+asyncpg://", pool_size, async_creator=connect, isolation_level="READ COMMITTED"
    )

    @sa.event.listens_for(engine.sync_engine, "checkout")
    def _taken(connection: Any, *_others: object) -> None:
        # A ping would cost three round trips; the driver knows by itself what was closed.
        if connection.driver_connection.is_closed():
            raise DisconnectionError("closed while it lay in the pool")

    driver = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
    return engine, (SQLAlchemyError, OSError, asyncio.TimeoutError, *driver)


def _sqlite(url: sa.URL, pool_size: int) -> tuple[AsyncEngine, tuple[type[BaseException], ...]]:
    engine = _engine(
        url.set(drivername="sqlite+aiosqlite"),
        pool_size,
        connect_args={"timeout": limits.SQLITE_BUSY_SECONDS},
    )

    @sa.event.listens_for(engine.sync_engine, "do_connect")
    def _connecting(*_arguments: object) -> None:
        # SQLite would make an empty database where there is none. The file is not opened to look:
        # closing it again would drop the locks that this process holds on it.
        if not os.access(url.database or "", os.R_OK | os.W_OK):
            raise FileNotFoundError("there is no file of that name that we may write to")

    @sa.event.listens_for(engine.sync_engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # BEGIN is ours, below.
        cursor = connection.cursor()
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.close()

    @sa.event.listens_for(engine.sync_engine, "begin")
    def _begun(connection: sa.Connection) -> None:
        # A transaction that reads first and writes later could not wait for another writer: SQLite
        # would fail it.
        writes = connection.get_execution_options().get("dispatch_writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine, (SQLAlchemyError, OSError, asyncio.TimeoutError)


def _engine(url: sa.URL | str, pool_size: int, **options: Any) -> AsyncEngine:
    return create_async_engine(
        url,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=limits.STORE_POOL_WAIT_SECONDS,
        pool_recycle=limits.STORE_RECYCLE_SECONDS,
        pool_reset_on_return="rollback",
        hide_parameters=True,
        **options,
    )


def _words(error: BaseException) -> str:
    """The driver's own words on one line, without SQLAlchemy's wrapping."""
    found = getattr(error, "orig", None) or error
    if isinstance(found.__cause__, Exception):  # A time-out is caused by a CancelledError, no news.
        found = found.__cause__
    text = " ".join(str(found).split())[: limits.DETAIL_CHARS_MAX]
    return f"{type(found).__name__}: {text}" if text else type(found).__name__


def _no_table(error: BaseException) -> bool:
    found = getattr(error, "orig", None)
    return getattr(found, "sqlstate", None) == "42P01" or "no such table" in str(found)
