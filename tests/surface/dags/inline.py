"""DAGs for `dag.test()`: run as a program, this tests them all and prints what came of them."""

import json
import os
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, TaskGroup, task

from airflow_dispatch.operators.dispatch import DispatchOperator

COMMON: dict[str, Any] = {
    "schedule": None,
    "start_date": datetime(2025, 1, 1, tzinfo=timezone.utc),
    "default_args": {"retry_delay": timedelta(0)},
}
CLUSTER: dict[str, Any] = {"cluster": "dispatch_local_default", "time_limit": "1m"}

with DAG(dag_id="everything", **COMMON) as everything:

    @task
    def words() -> list[str]:
        """A command that an earlier task decides."""
        return ["/bin/sh", "-c", 'echo "{\\"from\\": \\"xcom\\"}" > "$DISPATCH_RESULT"']

    with TaskGroup("group"):
        DispatchOperator(task_id="from_xcom", command=words(), **CLUSTER)
        DispatchOperator(
            task_id="templated",
            script="""echo '{"day": "'$DAY'", "cpus": {{ params.cpus }}}' > $DISPATCH_RESULT""",
            env={"DAY": "{{ ds }}"},
            cpus="{{ params.cpus }}",
            memory="{{ params.memory }}",
            params={"cpus": 1, "memory": "64MiB"},
            **CLUSTER,
        )
    DispatchOperator.partial(task_id="mapped", **CLUSTER).expand(
        command=[["/bin/sh", "-c", f"echo {n} > $DISPATCH_RESULT"] for n in range(2)]
    )
    DispatchOperator(task_id="from_file", script_file="inline.sh", **CLUSTER)
    DispatchOperator(
        task_id="retried",
        command='test "$DISPATCH_GENERATION" = 2 || exit 3',
        retries=1,
        **CLUSTER,
    )

with DAG(dag_id="fails", **COMMON) as fails:
    DispatchOperator(task_id="exits", command=["/bin/sh", "-c", "exit 3"], **CLUSTER)

with DAG(dag_id="refused", **COMMON) as refused:
    DispatchOperator(task_id="unknown", cluster="nowhere", command=["true"], retries=2)
    DispatchOperator(task_id="other", cluster="not_dispatch", command=["true"], retries=2)
    DispatchOperator(
        task_id="image",
        cluster="dispatch_local_default",
        image="registry/image:1",
        command=["true"],
        retries=2,
    )
    DispatchOperator(
        task_id="rendered_wrong",
        cluster="dispatch_local_default",
        command=["true"],
        cpus="{{ 'many' }}",
        retries=2,
    )
    DispatchOperator.partial(
        task_id="mapped_wrong", cluster="dispatch_local_default", command=["true"], retries=2
    ).expand(cpus=[0])

with DAG(dag_id="too_slow", **COMMON) as too_slow:
    DispatchOperator(
        task_id="sleeps",
        command=["sleep", "60"],
        grace=1,
        execution_timeout=timedelta(seconds=3),
        **CLUSTER,
    )


def add_connections(run_root: str) -> None:
    """One connection in the metadata database itself, and one of another type."""
    from airflow.models.connection import Connection
    from airflow.utils.session import create_session

    extra = json.dumps({"run_root": run_root, "slots": 4, "poll_seconds": None})
    with create_session() as session:
        session.add(Connection("dispatch_local_default", "dispatch_local", extra=extra))
        session.add(Connection("not_dispatch", "http", host="127.0.0.1"))


def main(answer: str, run_root: str) -> None:
    """Test each DAG; write state, tries and XCom of each task."""
    add_connections(run_root)
    told = {}
    for dag in (everything, fails, refused, too_slow):
        for ti in dag.test().get_task_instances():
            name = f"{ti.task_id}[{ti.map_index}]" if ti.map_index >= 0 else ti.task_id
            value = ti.xcom_pull(task_ids=ti.task_id, map_indexes=ti.map_index)
            told[name] = {"state": ti.state, "tries": ti.try_number, "xcom": value}
    Path(answer).write_text(json.dumps(told))
    os._exit(0)  # What Airflow's in-process server left running does not matter here.


if __name__ == "__main__":
    main(*sys.argv[1:])
