"""The four tables of the records, as SQLAlchemy sees them, and the database's own clock.

They live in the Airflow metadata database beside Airflow's tables, with a MetaData of their own.
Everything has an explicit name, so that `create_all` and the migrations make the same schema (a
test compares them). Keys are digests, because names of DAGs, runs and tasks may be long, hostile
and compared by rules that differ between databases; the names stand beside them for lists. States
and commit bodies are JSON in ASCII: whatever a script or a name holds passes through every
database's text.

Times in the tables are of the database's clock, except `dispatch_commit.at`, which its committer
stamped for people.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator

DIGEST_CHARS = 64
NAME_CHARS = 250
"""As long as Airflow's own names of DAGs, runs, tasks and connections."""


class UtcTime(TypeDecorator[datetime]):
    """An aware time in UTC; SQLite keeps it as text that sorts by time."""

    impl = sa.TIMESTAMP(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Give the database UTC."""
        return None if value is None else value.astimezone(timezone.utc)

    def process_result_value(self, value: Any, _dialect: Dialect) -> datetime | None:
        """Read UTC, which SQLite does not say."""
        if value is None:
            return None
        found: datetime = value
        return (
            found.astimezone(timezone.utc) if found.tzinfo else found.replace(tzinfo=timezone.utc)
        )


class database_now(FunctionElement[datetime]):  # noqa: N801 - reads as the SQL function that it is
    """The database's clock now (not at the transaction's start), plus some seconds."""

    type = UtcTime()
    inherit_cache = True
    name = "database_now"

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(sa.literal(float(seconds), sa.Float(53)))


@compiles(database_now, "postgresql")
def _postgresql_now(element: database_now, compiler: SQLCompiler, **options: Any) -> str:
    seconds = compiler.process(element.clauses, **options)
    return f"(clock_timestamp() + make_interval(secs => {seconds}))"


@compiles(database_now, "sqlite")
def _sqlite_now(element: database_now, compiler: SQLCompiler, **options: Any) -> str:
    # Milliseconds are what SQLite's clock has; the zeros make it the text that UtcTime writes.
    seconds = compiler.process(element.clauses, **options)
    shift = f"printf('%+.3f seconds', {seconds})"
    return f"(strftime('%Y-%m-%d %H:%M:%f', 'now', {shift}) || '000')"


metadata = sa.MetaData()

job = sa.Table(
    "dispatch_job",
    metadata,
    sa.Column("digest", sa.String(DIGEST_CHARS), nullable=False),
    sa.Column("task_digest", sa.String(DIGEST_CHARS), nullable=False),
    sa.Column("deployment", sa.String(NAME_CHARS), nullable=False),
    sa.Column("dag_id", sa.String(NAME_CHARS), nullable=False),
    sa.Column("run_id", sa.String(NAME_CHARS), nullable=False),
    sa.Column("task_id", sa.String(NAME_CHARS), nullable=False),
    sa.Column("map_index", sa.Integer, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("cluster", sa.String(NAME_CHARS), nullable=False),
    sa.Column("settled", sa.Boolean, nullable=False),
    sa.Column("outcome", sa.String(20), nullable=True),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
    sa.PrimaryKeyConstraint("digest", name="dispatch_job_pkey"),
    sa.UniqueConstraint("task_digest", "generation", name="dispatch_job_generation_key"),
    sa.Index("dispatch_job_created_idx", "created_at", "digest"),
    sa.Index("dispatch_job_open_idx", "settled", "created_at"),
    sa.Index("dispatch_job_task_idx", "dag_id", "run_id", "task_id"),
)

commit = sa.Table(
    "dispatch_commit",
    metadata,
    sa.Column("job", sa.String(DIGEST_CHARS), nullable=False),
    sa.Column("revision", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("id", sa.String(DIGEST_CHARS), nullable=False),
    sa.Column("kind", sa.String(40), nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("job", "revision", name="dispatch_commit_pkey"),
    sa.UniqueConstraint("id", name="dispatch_commit_id_key"),
)

owner = sa.Table(
    "dispatch_owner",
    metadata,
    sa.Column("job", sa.String(DIGEST_CHARS), nullable=False),
    sa.Column("owner", sa.String(NAME_CHARS), nullable=True),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),
    sa.PrimaryKeyConstraint("job", name="dispatch_owner_pkey"),
)

deployment = sa.Table(
    "dispatch_deployment",
    metadata,
    sa.Column("one", sa.Integer, nullable=False, autoincrement=False),
    sa.Column("id", sa.String(NAME_CHARS), nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),
    sa.Column("minted_at", UtcTime, nullable=False),
    sa.PrimaryKeyConstraint("one", name="dispatch_deployment_pkey"),
    # A second identity of one database is a mistake that must not be possible to make.
    sa.CheckConstraint("one = 1", name="dispatch_deployment_one_check"),
)
