"""How the metadata database is named and opened, as far as that needs no database."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_dispatch.core import codec
from airflow_dispatch.core.identity import JobKey, TaskKey
from airflow_dispatch.errors import InvalidConfiguration, StoreUnavailable, UnreadableRecord
from airflow_dispatch.stores.sql.database import Database, _words
from airflow_dispatch.stores.sql.rows import Jobs
from airflow_dispatch.stores.sql.store import SqlStore
from airflow_dispatch.testing.store_samples import JOB, SETTLED, begun

KEY = JobKey(TaskKey("deployment", "dag", "run", "train"), 1)


@pytest.mark.parametrize(
    ("url", "backend", "address"),
    [
        ("postgresql+psycopg2://u:secret@h:5/n", "postgresql", "postgresql+psycopg2://u:***@h:5/n"),
        ("postgresql://u@h/n?sslmode=require", "postgresql", "postgresql://u@h/n"),
        ("postgresql+asyncpg://h/n", "postgresql", "postgresql+asyncpg://h/n"),
        ("postgresql://u:%73ecret@/n?host=h", "postgresql", "postgresql://u:***@/n"),
        ("postgresql://h/n?password=secret", "postgresql", "postgresql://h/n"),
        ("sqlite:////var/lib/airflow.db", "sqlite", "sqlite:////var/lib/airflow.db"),
        ("sqlite+pysqlite:///a.db?timeout=3", "sqlite", "sqlite+pysqlite:///a.db"),
    ],
)
def test_airflows_urls_are_taken(url: str, backend: str, address: str) -> None:
    """Every form that Airflow's own setting may have is taken, and shown without its password."""
    database = Database(url)
    assert database.backend == backend
    assert database.address == address
    assert "secret" not in database.address


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "no SQLAlchemy URL"),
        ("not a url: secret", "no SQLAlchemy URL"),
        ("postgresql://u:secret@h:port/n", "no SQLAlchemy URL"),
        ("mysql://u:secret@h/n", "cannot be in mysql"),
        ("airflow-db-not-allowed:///", "no SQLAlchemy URL"),
        ("sqlite://", "cannot be in memory"),
        ("sqlite:///:memory:", "cannot be in memory"),
    ],
)
def test_other_urls_are_refused(url: str, words: str) -> None:
    """What cannot be a metadata database is refused when it is named, without its password."""
    with pytest.raises(InvalidConfiguration, match=words) as raised:
        Database(url)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


async def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """A SQLite file that does not exist is an unavailable store, told with its place, not made."""
    file = tmp_path / "airflow.db"
    store = SqlStore(Database(f"sqlite:///{file}"))
    with pytest.raises(StoreUnavailable, match=r"/airflow\.db.*no file"):
        await store.health()
    await store.close()
    assert not file.exists()


async def test_closing_what_was_never_used_is_fine() -> None:
    """A database that nobody asked anything has nothing to close, twice."""
    database = Database("postgresql://nowhere.invalid/n")
    await database.close()
    await database.close()


def test_jobs_are_kept_within_their_bound() -> None:
    """Decoded jobs are kept up to the bound, and the one unused for longest goes first."""
    body = codec.encode_body(begun(KEY).body)[1]
    jobs = Jobs(chars_max=3 * len(body))
    for name in "abc":
        assert jobs.decoded(name, body) == JOB
    assert jobs.get("a") is not None
    jobs.decoded("d", body)
    assert [name for name in "abcd" if jobs.get(name)] == ["a", "c", "d"]
    assert jobs.decoded("a", "not read again") is jobs.get("a")


def test_a_job_larger_than_the_bound_is_not_kept() -> None:
    """A job that is larger than all that may be kept is decoded, and makes room for the others."""
    small = codec.encode_body(begun(KEY).body)[1]
    large = codec.encode_body(begun(KEY, replace(JOB, command=("x" * 10_000,))).body)[1]
    jobs = Jobs(chars_max=2 * len(small))
    jobs.decoded("small", small)
    assert jobs.decoded("large", large).command == ("x" * 10_000,)
    assert jobs.get("large") is None


def test_a_first_commit_without_a_job_is_unreadable() -> None:
    """A history that begins with anything but a job is not taken for a record."""
    with pytest.raises(UnreadableRecord):
        Jobs().decoded("a", codec.encode_body(SETTLED[0])[1])


def test_a_store_is_made_without_a_loop() -> None:
    """Naming a store connects to nothing and needs no event loop."""
    store = SqlStore(Database("sqlite:////nowhere/airflow.db"))
    asyncio.run(store.close())


def test_a_time_out_is_called_one() -> None:
    """And not by the cancellation that asyncio makes it from, which would read as somebody's."""
    late = TimeoutError()
    late.__cause__ = asyncio.CancelledError()
    assert _words(late) == "TimeoutError"
