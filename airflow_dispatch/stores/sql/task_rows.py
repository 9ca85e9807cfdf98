"""The Tasks port on the Airflow metadata database: what Airflow's own rows say of task instances.

Airflow's tables are named here with the few columns that are read, never through Airflow's models:
those may not be imported where triggers run. One read is one transaction with one snapshot, which
also reads the deployment's id, so that rows of a wrong database are known as such; tasks are asked
for in batches. What only matters after a clear or a delete is read only where the rows show one.

"Since the record was created" compares the database's clock, by which the record was created, with
Airflow's clocks: hosts whose clocks differ by more than the seconds from a clear to the next try's
record could take that clear for one of the new record, or miss one. [follows-the-task]
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_dispatch import limits
from airflow_dispatch.core.classify import TaskRow
from airflow_dispatch.core.identity import TaskKey
from airflow_dispatch.stores.sql import audit, tables
from airflow_dispatch.stores.sql.database import Database

_run = sa.table(
    "dag_run",
    sa.column("id", sa.Integer),
    sa.column("dag_id", sa.String),
    sa.column("run_id", sa.String),
    sa.column("clear_number", sa.Integer),
)
_instance = sa.table(
    "task_instance",
    sa.column("id", sa.Uuid),
    sa.column("dag_id", sa.String),
    sa.column("run_id", sa.String),
    sa.column("task_id", sa.String),
    sa.column("map_index", sa.Integer),
    sa.column("state", sa.String),
    sa.column("try_number", sa.Integer),
    sa.column("max_tries", sa.Integer),
)
_earlier_try = sa.table(
    "task_instance_history",
    sa.column("dag_id", sa.String),
    sa.column("run_id", sa.String),
    sa.column("task_id", sa.String),
    sa.column("map_index", sa.Integer),
    sa.column("trigger_id", sa.Integer),
    sa.column("end_date", tables.UtcTime),
)
_log = sa.table(
    "log",
    sa.column("id", sa.Integer),
    sa.column("dttm", tables.UtcTime),
    sa.column("dag_id", sa.String),
    sa.column("run_id", sa.String),
    sa.column("event", sa.String),
    sa.column("extra", sa.Text),
)

Name = tuple[str, str, str, int]
"""DAG, run, task and map index: the task's key without the deployment."""


class SqlTasks:
    """Reads task instances from a `Database`, which its owner closes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, tasks: tuple[TaskKey, ...]) -> dict[TaskKey, TaskRow]:
        """A row for every asked task, all from one moment."""
        found: dict[TaskKey, TaskRow] = {}
        async with self._database.reading(snapshot=True) as connection:
            deployment = await connection.scalar(sa.select(tables.deployment.c.id)) or ""
            for start in range(0, len(tasks), limits.TASKS_PER_READ_MAX):
                some = tasks[start : start + limits.TASKS_PER_READ_MAX]
                rows = await _rows(connection, some, deployment)
                found |= rows
                found |= await _explained(connection, rows)
        return found


async def _rows(
    connection: AsyncConnection, tasks: tuple[TaskKey, ...], deployment: str
) -> dict[TaskKey, TaskRow]:
    """What DAG runs and task instances show."""
    named = list(dict.fromkeys((task.dag_id, task.run_id) for task in tasks))
    asked = sa.tuple_(_run.c.dag_id, _run.c.run_id).in_(named)
    runs = {
        (run.dag_id, run.run_id): run
        for run in await connection.execute(sa.select(_run).where(asked))
    }
    instances = {
        _name(instance): instance
        for instance in await connection.execute(
            sa.select(_instance).where(_named(_instance, tasks))
        )
    }
    found = {}
    for task in tasks:
        row = TaskRow(deployment)
        run = runs.get((task.dag_id, task.run_id))
        if run is not None:
            row = replace(row, dag_run_id=run.id, clear_number=run.clear_number)
        instance = instances.get(_name(task))
        if instance is not None:
            row = replace(
                row,
                ti_id=str(UUID(str(instance.id))),
                state=instance.state,
                try_number=instance.try_number,
                max_tries=instance.max_tries,
            )
        found[task] = row
    return found


async def _explained(
    connection: AsyncConnection, rows: dict[TaskKey, TaskRow]
) -> dict[TaskKey, TaskRow]:
    """The rows that need a reason, with it: the run was cleared in part, or it is not there."""
    doubtful = {
        task: row for task, row in rows.items() if row.dag_run_id is None or row.clear_number
    }
    created = await _created(connection, doubtful) if doubtful else {}
    if not created:
        return {}
    lines = await _lines(connection, created)
    cut_off = await _deferrals_cut_off(connection, created)
    found = {}
    for task, since in created.items():
        said = [line for line in lines if line.at >= since]
        cleared = any(line.clears(task) for line in said) or cut_off.get(_name(task), since) > since
        deleted = any(line.deletes(task) for line in said)
        found[task] = replace(rows[task], cleared=cleared, deleted=deleted)
    return found


async def _created(
    connection: AsyncConnection, doubtful: dict[TaskKey, TaskRow]
) -> dict[TaskKey, datetime]:
    """When the newest record of each task was created; tasks without a record are left out."""
    by_digest = {task.digest: task for task in doubtful}
    newest = sa.func.max(tables.job.c.created_at)
    wanted = (
        sa.select(tables.job.c.task_digest, newest)
        .where(tables.job.c.task_digest.in_(list(by_digest)))
        .group_by(tables.job.c.task_digest)
    )
    return {by_digest[digest]: at for digest, at in await connection.execute(wanted)}


async def _lines(connection: AsyncConnection, created: dict[TaskKey, datetime]) -> list[audit.Line]:
    """The newest lines of the audit log that may be about these tasks."""
    dags = [*dict.fromkeys(task.dag_id for task in created), audit.ANY_DAG]
    wanted = (
        sa.select(_log)
        .where(
            _log.c.event.in_(audit.CLEARS + audit.DELETES),
            _log.c.dag_id.in_(dags),
            _log.c.dttm >= min(created.values()),
        )
        .order_by(_log.c.id.desc())
        .limit(limits.AUDIT_LINES_MAX)
    )
    return [
        audit.Line(row.event, row.dttm, row.dag_id, row.run_id, audit.details(row.extra))
        for row in await connection.execute(wanted)
    ]


async def _deferrals_cut_off(
    connection: AsyncConnection, created: dict[TaskKey, datetime]
) -> dict[Name, datetime]:
    """When a try last ended while it was deferred, which only a clear does."""
    name = [_earlier_try.c[column] for column in _NAME_COLUMNS]
    ended = sa.func.max(_earlier_try.c.end_date).label("ended")
    wanted = (
        sa.select(*name, *[ended])
        .where(_named(_earlier_try, tuple(created)), _earlier_try.c.trigger_id.is_not(None))
        .group_by(*name)
    )
    rows = (await connection.execute(wanted)).all()
    return {_name(row): row.ended for row in rows if row.ended is not None}


_NAME_COLUMNS = ("dag_id", "run_id", "task_id", "map_index")


def _named(table: sa.TableClause, tasks: tuple[TaskKey, ...]) -> sa.ColumnElement[bool]:
    columns = (table.c[column] for column in _NAME_COLUMNS)
    return sa.tuple_(*columns).in_([_name(task) for task in tasks])


def _name(one: TaskKey | sa.Row[Any]) -> Name:
    return (one.dag_id, one.run_id, one.task_id, one.map_index)
