"""What is read of Airflow's rows, on SQLite and PostgreSQL, with tables shaped like Airflow's."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from airflow_dispatch import limits
from airflow_dispatch.core.classify import TaskRow
from airflow_dispatch.core.identity import JobKey, TaskKey
from airflow_dispatch.errors import StoreUnavailable
from airflow_dispatch.stores.sql import tables
from airflow_dispatch.stores.sql.database import Database
from airflow_dispatch.stores.sql.store import SqlStore
from airflow_dispatch.stores.sql.task_rows import SqlTasks
from airflow_dispatch.testing.store_samples import HOSTILE, MOMENT, begun
from tests.support import airflow_tables
from tests.support.airflow_tables import AirflowRows

SECOND = timedelta(seconds=1)
CLEAR = "post_clear_task_instances"


class Metadata:
    """A metadata database: our tables and Airflow's, and one task with a record."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.store = SqlStore(database)
        self.tasks = SqlTasks(database)
        self.task = TaskKey("", "dag", "run", "train")
        self.created = MOMENT

    async def set_up(self) -> None:
        """Make Airflow's tables, and the record."""
        async with self.database.writing() as connection:
            await connection.run_sync(airflow_tables.metadata.create_all)
        self.task = replace(self.task, deployment=await self.store.deployment())
        await self.store.create(begun(JobKey(self.task, 1)))
        async with self.database.reading() as connection:
            self.created = (
                await connection.execute(sa.select(tables.job.c.created_at))
            ).scalar_one()

    async def row(self, task: TaskKey | None = None) -> TaskRow:
        """What is read of one task, ours unless said otherwise."""
        asked = task or self.task
        found = await self.tasks.read((asked,))
        assert list(found) == [asked]
        return found[asked]


@pytest.fixture
async def metadata(url: str) -> AsyncIterator[Metadata]:
    """A database of the test's own."""
    made = Metadata(Database(url))
    await made.set_up()
    yield made
    await made.database.close()


async def test_a_live_task(metadata: Metadata) -> None:
    """A deferred task instance is read with its run, its try and the deployment's id."""
    async with metadata.database.writing() as connection:
        rows = AirflowRows(connection)
        await rows.run(metadata.task, 17, clear_number=2)
        made = await rows.instance(metadata.task, "deferred", try_number=3, max_tries=5)
    assert await metadata.row() == TaskRow(
        deployment=metadata.task.deployment,
        dag_run_id=17,
        ti_id=str(made),
        state="deferred",
        try_number=3,
        max_tries=5,
        clear_number=2,
    )


async def test_absence_is_a_value(metadata: Metadata) -> None:
    """No run, and a run without the task instance, are read as such."""
    deployment = metadata.task.deployment
    assert await metadata.row() == TaskRow(deployment)
    async with metadata.database.writing() as connection:
        await AirflowRows(connection).run(metadata.task, 17)
        await AirflowRows(connection).instance(replace(metadata.task, map_index=0), "running")
    assert await metadata.row() == TaskRow(deployment, dag_run_id=17)


async def test_a_database_without_id(metadata: Metadata) -> None:
    """A database that nobody minted an id for is read as none of ours."""
    async with metadata.database.writing() as connection:
        await connection.execute(sa.delete(tables.deployment))
    assert (await metadata.row()).deployment == ""


async def test_many_tasks_in_one_read(metadata: Metadata) -> None:
    """More tasks than one statement asks for, hostile names among them, each get their own row."""
    some = [replace(metadata.task, task_id=f"t{n}") for n in range(limits.TASKS_PER_READ_MAX)]
    some += [replace(metadata.task, task_id=name, map_index=4) for name in HOSTILE]
    some += [replace(metadata.task, dag_id=name) for name in HOSTILE]
    absent = replace(metadata.task, task_id="absent")
    async with metadata.database.writing() as connection:
        rows = AirflowRows(connection)
        for number, run in enumerate({(t.dag_id, t.run_id): t for t in some}.values()):
            await rows.run(run, number)
        ids = {task: str(await rows.instance(task, "running")) for task in some}
    found = await metadata.tasks.read((*some, absent))
    assert len(found) == len(some) + 1
    assert {task: row.ti_id for task, row in found.items()} == {**ids, absent: None}
    assert await metadata.tasks.read(()) == {}


@pytest.mark.parametrize(
    ("event", "after", "extra", "cleared"),
    [
        (CLEAR, SECOND, {"task_ids": ["train"]}, True),
        (CLEAR, -SECOND, {"task_ids": ["train"]}, False),
        (CLEAR, SECOND, {"task_ids": ["other"]}, False),
        ("clear_dag_run", SECOND, {}, True),
        ("patch_task_instance", SECOND, {"task_ids": ["train"]}, False),
    ],
)
async def test_a_clear_in_the_audit_log(
    metadata: Metadata, event: str, after: timedelta, extra: dict[str, object], *, cleared: bool
) -> None:
    """A line that names the task counts from the record's creation on."""
    async with metadata.database.writing() as connection:
        rows = AirflowRows(connection)
        await rows.run(metadata.task, 17, clear_number=1)
        await rows.instance(metadata.task, "running", try_number=2)
        at = metadata.created + after
        await rows.said(event, at, "dag", "run", json.dumps(extra))
    assert (await metadata.row()).cleared is cleared


async def test_a_clear_counts_for_the_newest_record(metadata: Metadata) -> None:
    """What cleared one generation is held against it and not against the next one."""
    other = replace(metadata.task, task_id="other")
    await metadata.store.create(begun(JobKey(other, 1)))
    async with metadata.database.writing() as connection:
        rows = AirflowRows(connection)
        await rows.run(metadata.task, 17, clear_number=1)
        at = metadata.created + SECOND
        await rows.said(CLEAR, at, "dag", "run", '{"task_ids": ["train", "other"]}')
    assert (await metadata.row()).cleared
    await metadata.store.create(begun(JobKey(metadata.task, 2)))
    async with metadata.database.writing() as connection:
        second = sa.update(tables.job).where(tables.job.c.generation == 2)
        await connection.execute(second.values(created_at=metadata.created + 2 * SECOND))
    found = await metadata.tasks.read((metadata.task, other))
    assert {task.task_id: row.cleared for task, row in found.items()} == {
        "train": False,
        "other": True,
    }


@pytest.mark.parametrize(
    ("trigger_id", "after", "cleared"),
    [(5, SECOND, True), (5, -SECOND, False), (None, SECOND, False)],
)
async def test_a_try_that_ended_while_deferred(
    metadata: Metadata, trigger_id: int | None, after: timedelta, *, cleared: bool
) -> None:
    """An earlier try that was cut off in its deferral shows a clear that no line tells of."""
    async with metadata.database.writing() as connection:
        rows = AirflowRows(connection)
        await rows.run(metadata.task, 17, clear_number=1)
        await rows.instance(metadata.task, "running", try_number=2)
        await rows.earlier_try(metadata.task, metadata.created + after, trigger_id)
        await rows.earlier_try(
            replace(metadata.task, task_id="other"), metadata.created + SECOND, 6
        )
    assert (await metadata.row()).cleared is cleared


@pytest.mark.parametrize(
    ("event", "run_id", "after", "deleted"),
    [
        ("delete_dag_run", "run", SECOND, True),
        ("delete_dag_run", "another", SECOND, False),
        ("delete_dag", None, SECOND, True),
        ("delete_dag", None, -SECOND, False),
        ("cli_dag_delete", None, SECOND, True),
    ],
)
async def test_a_delete_in_the_audit_log(
    metadata: Metadata, event: str, run_id: str | None, after: timedelta, *, deleted: bool
) -> None:
    """A run that is gone was deleted if a line since the record's creation says so."""
    async with metadata.database.writing() as connection:
        at = metadata.created + after
        await AirflowRows(connection).said(event, at, "dag", run_id)
    row = await metadata.row()
    assert row.dag_run_id is None
    assert row.deleted is deleted


async def test_a_quiet_task_costs_no_look_at_the_log(
    metadata: Metadata, statements: list[str]
) -> None:
    """Where nothing was cleared or deleted, three statements are all that is sent."""
    async with metadata.database.writing() as connection:
        await AirflowRows(connection).run(metadata.task, 17)
        await AirflowRows(connection).instance(metadata.task, "deferred")
    statements.clear()
    await metadata.row()
    selects = [one for one in statements if one.startswith("SELECT")]
    assert len(selects) == 3


async def test_one_read_is_one_moment(metadata: Metadata, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written between two statements of one read is not seen by the second."""
    async with metadata.database.writing() as connection:
        await AirflowRows(connection).run(metadata.task, 17)
    execute = AsyncConnection.execute
    written = False

    async def late(self: AsyncConnection, statement: sa.Executable, *rest: Any, **more: Any) -> Any:
        nonlocal written
        if "task_instance" in str(statement) and not written:
            written = True
            async with metadata.database.writing() as writer:
                monkeypatch.setattr(AsyncConnection, "execute", execute)
                await AirflowRows(writer).instance(metadata.task, "deferred")
        return await execute(self, statement, *rest, **more)

    monkeypatch.setattr(AsyncConnection, "execute", late)
    assert (await metadata.row()).ti_id is None
    assert written
    assert (await metadata.row()).ti_id is not None


async def test_a_database_without_airflow(url: str) -> None:
    """Where Airflow's tables are missing nothing is known, and that is an error."""
    database = Database(url)
    with pytest.raises(StoreUnavailable):
        await SqlTasks(database).read((TaskKey("", "dag", "run", "train"),))
    await database.close()
