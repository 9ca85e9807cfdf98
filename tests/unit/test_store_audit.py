"""What lines of Airflow's audit log are taken to say of one task."""

from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_dispatch.core.identity import TaskKey
from airflow_dispatch.stores.sql import audit

TASK = TaskKey("deployment", "dag", "run", "train", 2)
AT = datetime(2031, 1, 1, tzinfo=timezone.utc)
CLEAR = "post_clear_task_instances"


def line(event: str, dag: str | None = "dag", run: str | None = "run", **body: Any) -> audit.Line:
    """A line of our DAG and run unless said otherwise."""
    return audit.Line(event, AT, dag, run, body)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (line(CLEAR, task_ids=["train"]), True),
        (line(CLEAR, task_ids=["train"], only_failed=True), True),
        (line(CLEAR, task_ids=["other", ["train", 2]]), True),
        (line(CLEAR, task_ids=[["train", 1]]), False),
        (line(CLEAR, task_ids=["other"], include_downstream=True), False),
        (line(CLEAR, "another", task_ids=["train"]), False),
        (line(CLEAR, run="another", task_ids=["train"]), False),
        (line(CLEAR, run="another", task_ids=["train"], include_past=True), True),
        (line(CLEAR, run="another", task_ids=["train"], include_future=True), True),
        (line(CLEAR, run=None, task_ids=["train"], start_date="2031-01-01"), True),
        (line(CLEAR, only_failed=False), True),
        (line(CLEAR, only_failed=True), False),
        (line(CLEAR), False),
        (line(CLEAR, task_ids="train"), False),
        (line("clear_dag_run"), True),
        (line("clear_dag_run", only_failed=True), False),
        (line("clear_dag_run", only_new=True), False),
        (line("clear_dag_run", run="another"), False),
        (line("clear_dag_runs", run=None, dry_run=False, dag_runs=[{"dag_run_id": "run"}]), True),
        (line("clear_dag_runs", run=None, dag_runs=[{"dag_run_id": "run"}]), False),
        (line("clear_dag_runs", run=None, dry_run=False, partition_key="x"), False),
        (line("delete_dag_run"), False),
        (line("patch_task_instance"), False),
    ],
)
def test_what_names_the_task_as_cleared(said: audit.Line, expected: bool) -> None:
    """Only a call that names the task, or all tasks of its run, counts as a clear of it."""
    assert said.clears(TASK) is expected


def bulk(*entities: object, action: str = "delete", dag: str = "dag") -> audit.Line:
    """A bulk call on DAG runs."""
    actions: list[dict[str, object]] = [
        {"action": "update", "entities": [{"dag_run_id": "run"}]},
        {"action": action, "entities": [*entities]},
    ]
    return line("bulk_dag_runs", dag, None, actions=actions)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (line("delete_dag", run=None), True),
        (line("delete_dag", "another", None), False),
        (line("cli_dag_delete", run=None), True),
        (line("delete_dag_run"), True),
        (line("delete_dag_run", run="another"), False),
        (line("delete_dag_run", "another"), False),
        (bulk("run"), True),
        (bulk("another", "run"), True),
        (bulk({"dag_run_id": "run"}), True),
        (bulk({"dag_run_id": "run", "dag_id": "dag"}, dag="~"), True),
        (bulk({"dag_run_id": "run", "dag_id": "another"}, dag="~"), False),
        (bulk("run", dag="~"), False),
        (bulk("another"), False),
        (bulk("run", action="update"), False),
        (bulk(7, None, ["run"]), False),
        (line("bulk_dag_runs", actions="delete"), False),
        (line("bulk_dag_runs", actions=["delete"]), False),
        (line(CLEAR, task_ids=["train"]), False),
    ],
)
def test_what_names_the_run_as_deleted(said: audit.Line, expected: bool) -> None:
    """Only a call that deletes this run or this DAG counts as its deletion."""
    assert said.deletes(TASK) is expected


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ('{"task_ids": ["a"]}', {"task_ids": ["a"]}),
        (None, {}),
        ("", {}),
        ("not json", {}),
        ('["a list"]', {}),
    ],
)
def test_details_are_read_or_empty(extra: str | None, expected: dict[str, Any]) -> None:
    """A line whose body cannot be read says nothing."""
    assert audit.details(extra) == expected
