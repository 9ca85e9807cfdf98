"""DispatchOperator as DAG authors use it, on a real Airflow: retries, mapping, task groups.

Wrong connections.
"""

from __future__ import annotations

from tests.support.airflow import AirflowBed, until
from tests.system.airflow.conftest import Account


def test_a_retry_is_a_new_generation(airflow_bed: AirflowBed, account: Account) -> None:
    """A failed first try and a good second one: two records, one after the other.

    In a task group.
    """
    bed = airflow_bed
    bed.unpause("retried")
    run_id = bed.trigger("retried", {"account": str(account.path), "seconds": 1, "exit_first": 7})
    bed.ends("retried", run_id, "group.run", "success", seconds=180)
    assert [line[2] for line in account.lines("START")] == ["1", "2"]
    first = bed.show("retried", run_id, "group.run", "--generation", "1")
    assert first["outcome"]["cause"]["number"] == 7


def test_mapped_tasks_have_a_record_each(airflow_bed: AirflowBed) -> None:
    """`.expand` gives every map index its own record and run."""
    bed = airflow_bed
    bed.unpause("mapped")
    run_id = bed.trigger("mapped")

    def done() -> bool:
        tasks = bed.api("GET", f"/dags/mapped/dagRuns/{run_id}/taskInstances")["task_instances"]
        return len(tasks) == 3 and all(t["state"] == "success" for t in tasks)

    until("all three succeed", done, seconds=180)
    digests = {bed.show("mapped", run_id, "run", "--map-index", str(n))["digest"] for n in range(3)}
    assert len(digests) == 3


def test_a_cluster_that_is_none_fails_clearly(airflow_bed: AirflowBed) -> None:
    """An unknown connection and one of another type: the task fails with the reason.

    And no record is made.
    """
    bed = airflow_bed
    for dag_id, word in (("unknown_cluster", "nowhere"), ("wrong_connection", "not_dispatch")):
        bed.unpause(dag_id)
        run_id = bed.trigger(dag_id)
        bed.ends(dag_id, run_id, "run", "failed", seconds=120)
        assert word in bed.log(dag_id, run_id, "run", 1)
        listed = bed.command("dispatch", "list", "--dag-id", dag_id, "-o", "json")
        assert run_id not in listed.stdout


def test_the_digits_example_trains(airflow_bed: AirflowBed) -> None:
    """The example DAG trains a real classifier and hands on its accuracy."""
    bed = airflow_bed
    bed.unpause("digits")
    run_id = bed.trigger("digits")
    bed.ends("digits", run_id, "train", "success", seconds=240)
    assert bed.xcom("digits", run_id, "train")["result"]["accuracy"] > 0.9
