"""The manager through which `airflow db migrate`, `check-migrations` and `reset` handle our tables.

Airflow finds it by the provider info (`db-managers`). On a new installation Airflow creates the
tables and marks them with the newest revision; later it runs the migrations. Either way the
deployment's id is minted at the end, once.

Tables with open records are dropped only where `DISPATCH_DROP_OPEN_RECORDS=1` is set for that one
command: a run whose record is gone goes on, and nobody looks after it. [nothing-forgotten]
"""

# Airflow's own class is not typed.
# mypy: allow-untyped-calls

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import sqlalchemy as sa
from airflow.utils.db_manager import BaseDBManager

from airflow_dispatch.errors import OpenRecords
from airflow_dispatch.stores.sql import schema, tables

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

DROP_OPEN_RECORDS = "DISPATCH_DROP_OPEN_RECORDS"


class DispatchDBManager(BaseDBManager):
    """Makes, upgrades, checks and drops the tables of dispatch on Airflow's session."""

    metadata = tables.metadata
    migration_dir = str(schema.MIGRATIONS)
    alembic_file = str(schema.ALEMBIC_INI)
    version_table_name = schema.VERSION_TABLE
    supports_table_dropping = True
    revision_heads_map = {"0.1.0": "0001"}  # noqa: RUF012 - Airflow declares it so
    session: Session

    def create_db_from_orm(self) -> None:
        """Make the tables of a new installation."""
        super().create_db_from_orm()
        self._mint()

    def upgradedb(
        self,
        to_revision: str | None = None,
        from_revision: str | None = None,
        show_sql_only: bool = False,  # noqa: FBT001, FBT002 - Airflow calls it so
        use_migration_files: bool = False,  # noqa: FBT001, FBT002 - the same
    ) -> None:
        """Upgrade to a revision, the newest unless said otherwise."""
        super().upgradedb(to_revision, from_revision, show_sql_only, use_migration_files)
        if not show_sql_only:
            self._mint()

    def downgrade(
        self,
        to_revision: str,
        from_revision: str | None = None,
        show_sql_only: bool = False,  # noqa: FBT001, FBT002 - Airflow calls it so
    ) -> None:
        """Go back to an older revision; `base` drops the tables."""
        from alembic import command  # noqa: PLC0415 - slow to import, and only needed here

        config = self.get_alembic_config()
        if show_sql_only:
            start = from_revision or self.get_current_revision()
            command.downgrade(config, f"{start}:{to_revision}", sql=True)
            return
        refuse_open_records(self.session.connection())
        # Our look at the tables ends before Alembic takes them away on a connection of its own.
        self.session.commit()
        command.downgrade(config, to_revision)

    def drop_tables(self, connection: sa.Connection) -> None:
        """Drop the tables, as `airflow db reset` does."""
        refuse_open_records(connection)
        super().drop_tables(connection)

    def _mint(self) -> None:
        schema.mint(self.session.connection())
        self.session.commit()


def refuse_open_records(connection: sa.Connection) -> None:
    """Raise `OpenRecords` where records would be lost that somebody must still look after."""
    count = schema.open_records(connection)
    if count and os.environ.get(DROP_OPEN_RECORDS) != "1":
        raise OpenRecords(
            f"{count} dispatch record(s) are not settled: their runs may still go on, and without"
            " the tables nobody would look after them. The tables were kept. Cancel the runs or let"
            " them end (`airflow dispatch list`); to drop the tables all the same, set"
            f" {DROP_OPEN_RECORDS}=1 for this one command"
        )
