"""Airflow's own tables, written by Airflow's own code, are read as dispatch understands them."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_dispatch.core.classify import TaskRow
from airflow_dispatch.core.identity import JobKey, TaskKey
from airflow_dispatch.stores.sql.database import Database
from airflow_dispatch.stores.sql.store import SqlStore
from airflow_dispatch.stores.sql.task_rows import SqlTasks
from airflow_dispatch.testing.store_samples import begun

NOW = datetime.now(timezone.utc)
Sessions = Callable[[], AbstractContextManager[Any]]


class Task:
    """One deferred task instance with a record, in Airflow's real tables."""

    def __init__(self, url: str, sessions: Sessions, dag_id: str) -> None:
        self.url = url
        self.sessions = sessions
        self.key = TaskKey("", dag_id, "run~1:2+3", "train")

    def set_up(self) -> None:
        """Insert the rows as Airflow's models map them."""
        from airflow.models import DagRun, TaskInstance, Trigger

        with self.sessions() as session:
            run = DagRun(dag_id=self.key.dag_id, run_id=self.key.run_id, run_type="manual")
            run.run_after = NOW
            trigger = Trigger(classpath="a.b", kwargs={})
            session.add_all((run, trigger))
            session.flush()
            values = {
                "task_id": self.key.task_id,
                "dag_id": self.key.dag_id,
                "run_id": self.key.run_id,
                "state": "deferred",
                "try_number": 1,
                "max_tries": 1,
                "pool": "default_pool",
                "trigger_id": trigger.id,
            }
            session.execute(TaskInstance.__table__.insert().values(**values))
        asyncio.run(self._create())

    async def _create(self) -> None:
        store = SqlStore(Database(self.url))
        self.key = replace(self.key, deployment=await store.deployment())
        await store.create(begun(JobKey(self.key, 1)))
        await store.close()

    def read(self) -> TaskRow:
        """What is read of it."""

        async def read() -> TaskRow:
            database = Database(self.url)
            found = await SqlTasks(database).read((self.key,))
            await database.close()
            return found[self.key]

        return asyncio.run(read())

    def say(self, event: str, **body: object) -> None:
        """A line of the audit log, by Airflow's own model."""
        from airflow.models import Log

        with self.sessions() as session:
            line = Log(
                event, dag_id=self.key.dag_id, run_id=self.key.run_id, extra=json.dumps(body)
            )
            line.dttm = datetime.now(timezone.utc) + timedelta(seconds=1)
            session.add(line)


@pytest.fixture
def task(airflow_database: str, request: pytest.FixtureRequest) -> Task:
    """A task of the test's own."""
    from airflow.utils.session import create_session

    made = Task(airflow_database, create_session, f"dag_{request.node.name}")
    made.set_up()
    return made


def test_a_deferred_task_is_read(task: Task) -> None:
    """Ids, state and tries are those that Airflow's models show."""
    from airflow.models import DagRun, TaskInstance
    from sqlalchemy import select

    with task.sessions() as session:
        run = session.scalar(select(DagRun).filter_by(dag_id=task.key.dag_id))
        instance = session.scalar(select(TaskInstance).filter_by(dag_id=task.key.dag_id))
        expected = TaskRow(
            deployment=task.key.deployment,
            dag_run_id=run.id,
            ti_id=str(instance.id),
            state="deferred",
            try_number=1,
            max_tries=1,
            clear_number=0,
        )
    assert task.read() == expected


def test_a_clear_shows_without_any_line(task: Task) -> None:
    """Airflow's own clear of a deferred task is known by the try that it cut off."""
    from airflow.models import TaskInstance
    from airflow.models.taskinstance import clear_task_instances
    from sqlalchemy import select

    before = task.read()
    with task.sessions() as session:
        found = session.scalars(select(TaskInstance).filter_by(dag_id=task.key.dag_id)).all()
        clear_task_instances(list(found), session)
    after = task.read()
    assert (after.state, after.clear_number, after.cleared) == (None, 1, True)
    assert after.ti_id != before.ti_id
    assert after.dag_run_id == before.dag_run_id


def test_a_clear_shows_by_its_line(task: Task) -> None:
    """A line of the audit log that names the task counts, once the run was cleared in part."""
    from airflow.models import DagRun
    from sqlalchemy import update

    task.say("post_clear_task_instances", task_ids=["train"], only_failed=False)
    assert not task.read().cleared
    with task.sessions() as session:
        session.execute(update(DagRun).filter_by(dag_id=task.key.dag_id).values(clear_number=1))
    assert task.read().cleared


def test_a_deleted_run_shows_by_its_line(task: Task) -> None:
    """A run that is gone is deleted when a line says so, and only missing otherwise."""
    from airflow.models import DagRun, TaskInstance
    from sqlalchemy import delete

    with task.sessions() as session:
        session.execute(delete(TaskInstance).filter_by(dag_id=task.key.dag_id))
        session.execute(delete(DagRun).filter_by(dag_id=task.key.dag_id))
    assert task.read() == TaskRow(task.key.deployment)
    task.say("delete_dag_run", method="DELETE")
    assert task.read() == TaskRow(task.key.deployment, deleted=True)
