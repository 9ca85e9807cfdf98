"""An example DAG: train a classifier of handwritten digits on the machine at hand.

The run goes to the embedded `local` cluster. It lives apart from Airflow: kill the triggerer or
the worker while it trains and the very same run goes on. `make demo` starts an Airflow for it and
follows it; with an Airflow of your own, put this folder among your DAGs and make the connection
`dispatch_local_default`.

The training is digits/train.py. Its accuracy is the task's XCom.
"""

import sys
from datetime import datetime, timezone
from pathlib import Path

from airflow.sdk import DAG

from airflow_dispatch.operators.dispatch import DispatchOperator

TRAINING = Path(__file__).resolve().parent / "digits" / "train.py"

with DAG(
    dag_id="digits",
    schedule=None,
    start_date=datetime(2025, 1, 1, tzinfo=timezone.utc),
    catchup=False,
    params={"epochs": 20, "seconds_per_epoch": 0.0},
    doc_md=__doc__,
):
    DispatchOperator(
        task_id="train",
        cluster="dispatch_local_default",
        command=[
            sys.executable,
            "-u",
            str(TRAINING),
            "--epochs",
            "{{ params.epochs }}",
            "--seconds-per-epoch",
            "{{ params.seconds_per_epoch }}",
        ],
        cpus=1,
        memory="1GiB",
        time_limit="10m",
    )
