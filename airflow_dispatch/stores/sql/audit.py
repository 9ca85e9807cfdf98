"""What a line of Airflow's audit log says of one task: cleared, or its run or DAG deleted.

Airflow writes a line for each call that a person makes, with the call's name and its body as JSON,
before it does what was asked. So a line alone proves nothing: it tells who meant what, and is read
only where the rows show that something happened (`core.classify`). Where a line does not name the
task, the answer is no: a run goes on until somebody is seen to have ended it. [follows-the-task]

Not told apart: a clear that reaches the task only as upstream or downstream of another one, and
`airflow tasks clear`, whose patterns only Airflow can resolve. Both show in the rows in all but
rare cases.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from airflow_dispatch.core.identity import TaskKey

CLEARS = ("post_clear_task_instances", "clear_dag_run", "clear_dag_runs")
DELETES = ("delete_dag", "delete_dag_run", "bulk_dag_runs", "cli_dag_delete")
ANY_DAG = "~"
"""How Airflow's API writes "of any DAG" in a path."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the audit log; `details` is the body of the call, or empty."""

    event: str
    at: datetime
    dag_id: str | None
    run_id: str | None
    details: dict[str, Any]

    def clears(self, task: TaskKey) -> bool:
        """Whether it asks for a clear of this task in this run."""
        match self.event:
            case "post_clear_task_instances":
                return self.dag_id == task.dag_id and self._reaches_run(task) and self._names(task)
            case "clear_dag_run":
                return self._is_of_run(task) and self._clears_whole_runs()
            case "clear_dag_runs":
                meant = self.details.get("dry_run", True) is False and self._clears_whole_runs()
                return meant and self._lists_run("dag_runs", self.details, task)
            case _:
                return False

    def deletes(self, task: TaskKey) -> bool:
        """Whether it asks to delete the run or the DAG of this task."""
        match self.event:
            case "delete_dag" | "cli_dag_delete":
                return self.dag_id == task.dag_id
            case "delete_dag_run":
                return self._is_of_run(task)
            case "bulk_dag_runs":
                return any(
                    action.get("action") == "delete" and self._lists_run("entities", action, task)
                    for action in _items(self.details, "actions")
                    if isinstance(action, dict)
                )
            case _:
                return False

    def _is_of_run(self, task: TaskKey) -> bool:
        return (self.dag_id, self.run_id) == (task.dag_id, task.run_id)

    def _reaches_run(self, task: TaskKey) -> bool:
        """A clear by dates names no run, and one may reach into other runs."""
        wide = self.details.get("include_past") or self.details.get("include_future")
        return self.run_id in (None, task.run_id) or bool(wide)

    def _names(self, task: TaskKey) -> bool:
        """By its id, by its id and map index, or all tasks by naming none."""
        if self.details.get("task_ids") is None:
            return self.details.get("only_failed", True) is False
        names = _items(self.details, "task_ids")
        return task.task_id in names or [task.task_id, task.map_index] in names

    def _clears_whole_runs(self) -> bool:
        """Rather than the failed tasks, or those that are new in the DAG."""
        return not (self.details.get("only_failed") or self.details.get("only_new"))

    def _lists_run(self, field: str, body: dict[str, Any], task: TaskKey) -> bool:
        """Whether a list of runs, each an id or an id with its DAG, has the run of this task."""
        for item in _items(body, field):
            run = item if isinstance(item, dict) else {"dag_run_id": item}
            dag_id = run.get("dag_id") or self.dag_id
            if (dag_id, run.get("dag_run_id")) == (task.dag_id, task.run_id):
                return True
        return False


def details(extra: str | None) -> dict[str, Any]:
    """The body of a call as its line keeps it; empty where there is none that can be read."""
    try:
        found = json.loads(extra or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _items(body: dict[str, Any], field: str) -> list[Any]:
    found = body.get(field)
    return found if isinstance(found, list) else []
