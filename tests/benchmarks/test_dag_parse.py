"""What a DAG file with the operator costs, beyond what Airflow itself takes to be imported.

Every DAG file pays it, each time it is parsed. The bound is a share of Airflow's own import in the
same process, in CPU time, so that it holds on a busy machine as well.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROUNDS = 5
SHARE_MAX = 0.05
OPERATORS = 100
PROGRAM = """
import json, sys, time
began = time.process_time()
import airflow
from airflow.sdk import DAG, BaseOperator
with DAG(dag_id="airflow_alone", schedule=None):
    BaseOperator(task_id="t")
airflow_took, before = time.process_time() - began, set(sys.modules)
began = time.process_time()
from airflow_dispatch.operators.dispatch import DispatchOperator
import_took = time.process_time() - began
with DAG(dag_id="d", schedule=None):
    began = time.process_time()
    for number in range(int(sys.argv[1])):
        DispatchOperator(
            task_id=f"t{number}", cluster="c", command=["train", "{{ ds }}"], env={"A": "1"},
            cpus=4, memory="16GiB", time_limit="1d",
        )
    tasks_took = time.process_time() - began
new = sorted(set(sys.modules) - before)
print(json.dumps([airflow_took, import_took, tasks_took, new]))
"""


class Parsed(NamedTuple):
    """One parse: seconds of CPU for each part, and the modules that it loaded."""

    airflow: float
    operator: float
    tasks: float
    modules: list[str]


def parsed(folder: Path) -> Parsed:
    """Parse in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(OPERATORS)],
        env={"AIRFLOW_HOME": str(folder), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return Parsed(*json.loads(done.stdout.splitlines()[-1]))


def test_the_operator_adds_little_to_the_parsing_of_a_dag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Importing it takes less than a twentieth of what importing Airflow takes."""
    rounds = [parsed(tmp_path) for _ in range(ROUNDS)]
    airflow = statistics.median(one.airflow for one in rounds)
    imported = statistics.median(one.operator for one in rounds)
    tasks = statistics.median(one.tasks for one in rounds)
    with capsys.disabled():
        sys.stdout.write(
            f"\nDAG parse, CPU time, median of {ROUNDS}: Airflow {airflow * 1e3:.0f} ms; "
            f"DispatchOperator's import {imported * 1e3:.1f} ms "
            f"({imported / airflow:.2%} of Airflow's); "
            f"each task {tasks / OPERATORS * 1e6:.0f} us\n"
        )
    assert imported < SHARE_MAX * airflow


def test_parsing_loads_no_adapter_and_no_database_library(tmp_path: Path) -> None:
    """Of this package only what checks a job; of others nothing but parts of Airflow's SDK."""
    new = parsed(tmp_path).modules
    ours = {name for name in new if name.partition(".")[0] == "airflow_dispatch"}
    assert ours == {
        "airflow_dispatch.core",
        "airflow_dispatch.core.causes",
        "airflow_dispatch.core.job",
        "airflow_dispatch.core.quantities",
        "airflow_dispatch.errors",
        "airflow_dispatch.exceptions",
        "airflow_dispatch.limits",
        "airflow_dispatch.operators",
        "airflow_dispatch.operators.dispatch",
        "airflow_dispatch.surface.jobs",
    }
    others = {name.partition(".")[0] for name in new} - sys.stdlib_module_names
    assert others <= {"airflow", "airflow_dispatch"}
