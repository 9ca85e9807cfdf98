"""Alembic's environment for our tables: which connection, which tables, which version table.

Airflow's manager gives a URL, our own helpers give a connection in `config.attributes`. The version
table is ours, so that our revisions and Airflow's know nothing of each other; Airflow's tables in
the same database are left out of every comparison. Nothing here configures logging: whoever calls
has done so.
"""

import sqlalchemy as sa
from alembic import context

from airflow_dispatch.stores.sql import schema, tables


def run(connection: sa.Connection | None = None, *, url: str | None = None) -> None:
    """Run the asked revisions on a connection, or print their SQL for a URL's database."""
    context.configure(
        connection=connection,
        url=url,
        target_metadata=tables.metadata,
        version_table=schema.VERSION_TABLE,
        include_name=schema.is_ours,
        compare_type=True,
        literal_binds=connection is None,
        render_as_batch=True,
    )
    with context.begin_transaction():
        context.run_migrations()


def run_online() -> None:
    """Run the asked revisions on the connection that was given, or on one of our own."""
    given = context.config.attributes.get("connection")
    if given is not None:
        run(given)
        return
    engine = sa.create_engine(asked_url(), poolclass=sa.pool.NullPool, hide_parameters=True)
    with engine.connect() as connection:
        run(connection)


def asked_url() -> str:
    """The URL that the caller set."""
    return context.config.get_main_option("sqlalchemy.url") or ""


if context.is_offline_mode():
    run(url=asked_url())
else:
    run_online()
