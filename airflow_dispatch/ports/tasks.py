"""The Tasks port: what Airflow's own rows say of the task instances that want our runs. Read only.

One read is one snapshot: row, DAG run and audit lines belong together, and `database` names the
deployment whose tables were read, so that a wrong or restored database is not taken for a deleted
task. [follows-the-task]
"""

from __future__ import annotations

from typing import Protocol

from airflow_dispatch.core.classify import TaskRow
from airflow_dispatch.core.identity import TaskKey


class Tasks(Protocol):
    """Reads task instances."""

    async def read(self, tasks: tuple[TaskKey, ...]) -> dict[TaskKey, TaskRow]:
        """A row for every asked task, absence being a value of it.

        Raises `StoreUnavailable` where it cannot tell.
        """
        ...
