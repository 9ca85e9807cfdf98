"""The DAGs of the system tests.

Each run's `conf` says how long it takes and where it keeps its account.
"""

import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, TaskGroup

from airflow_dispatch.operators.dispatch import DispatchOperator

PAYLOAD = str(Path(__file__).resolve().parent / "payload.py")
COMMAND = [
    sys.executable,
    "-u",
    PAYLOAD,
    "--account",
    "{{ dag_run.conf['account'] }}",
    "--seconds",
    "{{ dag_run.conf.get('seconds', 1) }}",
    "--exit",
    "{{ dag_run.conf.get('exit', 0) }}",
    "--exit-first",
    "{{ dag_run.conf.get('exit_first', 0) }}",
]
COMMON: dict[str, Any] = {
    "schedule": None,
    "start_date": datetime(2025, 1, 1, tzinfo=timezone.utc),
    "catchup": False,
}

with DAG(dag_id="one", **COMMON):
    DispatchOperator(
        task_id="run",
        cluster="dispatch_local_default",
        command=COMMAND,
        time_limit="20m",
        grace=5,
    )

with DAG(dag_id="retried", **COMMON), TaskGroup("group"):
    DispatchOperator(
        task_id="run",
        cluster="dispatch_local_default",
        command=COMMAND,
        time_limit="5m",
        retries=1,
        retry_delay=timedelta(seconds=1),
    )

with DAG(dag_id="mapped", **COMMON):
    DispatchOperator.partial(
        task_id="run",
        cluster="dispatch_local_default",
        time_limit="5m",
    ).expand(command=[["/bin/sh", "-c", f"echo this is {n}; exit 0"] for n in range(3)])

with DAG(dag_id="unknown_cluster", **COMMON):
    DispatchOperator(task_id="run", cluster="nowhere", command=["true"], time_limit="1m")

with DAG(dag_id="wrong_connection", **COMMON):
    DispatchOperator(task_id="run", cluster="not_dispatch", command=["true"], time_limit="1m")
