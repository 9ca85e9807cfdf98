"""The parts of Airflow's tables that dispatch reads, without Airflow: made and filled by tests.

Types are those of Airflow 3.3 as far as a reader can tell them apart. That the real tables are read
as well is tested where Airflow itself is installed (tests/surface).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_dispatch.core.identity import TaskKey

metadata = sa.MetaData()
TIME = sa.TIMESTAMP(timezone=True)

dag_run = sa.Table(
    "dag_run",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("dag_id", sa.String(250), nullable=False),
    sa.Column("run_id", sa.String(250), nullable=False),
    sa.Column("clear_number", sa.Integer, nullable=False, server_default="0"),
    sa.UniqueConstraint("dag_id", "run_id"),
)
task_instance = sa.Table(
    "task_instance",
    metadata,
    sa.Column("id", sa.Uuid, primary_key=True),
    sa.Column("dag_id", sa.String(250), nullable=False),
    sa.Column("run_id", sa.String(250), nullable=False),
    sa.Column("task_id", sa.String(250), nullable=False),
    sa.Column("map_index", sa.Integer, nullable=False),
    sa.Column("state", sa.String(20)),
    sa.Column("try_number", sa.Integer),
    sa.Column("max_tries", sa.Integer),
    sa.UniqueConstraint("dag_id", "task_id", "run_id", "map_index"),
)
task_instance_history = sa.Table(
    "task_instance_history",
    metadata,
    sa.Column("task_instance_id", sa.Uuid, primary_key=True),
    sa.Column("dag_id", sa.String(250), nullable=False),
    sa.Column("run_id", sa.String(250), nullable=False),
    sa.Column("task_id", sa.String(250), nullable=False),
    sa.Column("map_index", sa.Integer, nullable=False),
    sa.Column("trigger_id", sa.Integer),
    sa.Column("end_date", TIME),
)
log = sa.Table(
    "log",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("dttm", TIME),
    sa.Column("dag_id", sa.String(250)),
    sa.Column("run_id", sa.String(250)),
    sa.Column("event", sa.String(60), nullable=False),
    sa.Column("extra", sa.Text),
)


@dataclass(frozen=True)
class AirflowRows:
    """Writes rows as Airflow would, on a connection that its owner commits."""

    connection: AsyncConnection

    async def add(self, table: sa.Table, **values: Any) -> None:
        """One row."""
        await self.connection.execute(sa.insert(table).values(values))

    async def run(self, task: TaskKey, number: int, *, clear_number: int = 0) -> None:
        """The DAG run of a task."""
        await self.add(
            dag_run, id=number, dag_id=task.dag_id, run_id=task.run_id, clear_number=clear_number
        )

    async def instance(
        self, task: TaskKey, state: str | None, *, try_number: int = 1, max_tries: int = 0
    ) -> UUID:
        """A task instance; its id."""
        made = uuid4()
        values = {"state": state, "try_number": try_number, "max_tries": max_tries}
        await self.add(task_instance, id=made, **_names(task), **values)
        return made

    async def earlier_try(self, task: TaskKey, ended: datetime, trigger_id: int | None) -> None:
        """A try that is over."""
        values = {"trigger_id": trigger_id, "end_date": ended}
        await self.add(task_instance_history, task_instance_id=uuid4(), **_names(task), **values)

    async def said(
        self, event: str, at: datetime, dag_id: str, run_id: str | None, extra: str = "{}"
    ) -> None:
        """A line of the audit log."""
        await self.add(log, event=event, dttm=at, dag_id=dag_id, run_id=run_id, extra=extra)


def _names(task: TaskKey) -> dict[str, Any]:
    return {
        "dag_id": task.dag_id,
        "run_id": task.run_id,
        "task_id": task.task_id,
        "map_index": task.map_index,
    }
