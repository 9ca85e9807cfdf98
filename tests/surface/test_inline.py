"""`dag.test()`: the whole way in one process, with real runs on the local cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DAGS = Path(__file__).parent / "dags"


@pytest.fixture(scope="module")
def inline(
    airflow_database: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], str]:
    """What came of each task of `dags/inline.py`, and everything that was printed."""
    folder = tmp_path_factory.mktemp("inline")
    dags = folder / "dags"
    shutil.copytree(DAGS, dags)
    done = subprocess.run(
        [sys.executable, str(dags / "inline.py"), str(folder / "told"), str(folder / "runs")],
        env={
            **os.environ,
            "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
            "AIRFLOW__DISPATCH__POLL_SECONDS": "0.5",
            "AIRFLOW__DISPATCH__FIND_SECONDS": "0.1",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-8000:]
    told: dict[str, Any] = json.loads((folder / "told").read_text())
    return told, done.stdout + done.stderr


Inline = tuple[dict[str, Any], str]


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("group.from_xcom", {"from": "xcom"}),
        ("mapped[0]", 0),
        ("mapped[1]", 1),
        ("from_file", {"files": 2}),
    ],
)
def test_a_run_hands_its_result_on(inline: Inline, name: str, result: object) -> None:
    """In a task group, mapped, from a file, with a command of another task."""
    task = inline[0][name]
    assert task["state"] == "success"
    assert task["xcom"]["result"] == result


def test_parameters_are_rendered(inline: Inline) -> None:
    """Script, environment, cpus and memory came out of templates."""
    result = inline[0]["group.templated"]["xcom"]["result"]
    assert result["cpus"] == 1
    assert len(result["day"].split("-")) == 3


def test_the_outcome_is_the_xcom(inline: Inline) -> None:
    """Where it ran, how long, and where its output is, which is there."""
    outcome = inline[0]["from_file"]["xcom"]
    assert (outcome["state"], outcome["exit_code"]) == ("succeeded", 0)
    assert outcome["run_seconds"] >= 0
    assert outcome["cluster"] == "dispatch_local_default"
    assert Path(outcome["output"]).exists()


def test_a_retry_is_a_run_of_its_own(inline: Inline) -> None:
    """The second try made generation 2, which succeeded."""
    task = inline[0]["retried"]
    assert (task["state"], task["tries"]) == ("success", 2)
    assert task["xcom"]["generation"] == 2


def test_a_failed_run_fails_its_task(inline: Inline) -> None:
    """With the exit code in the log, and no XCom."""
    told, printed = inline
    assert told["exits"]["state"] == "failed"
    assert told["exits"]["xcom"] is None
    assert "The run failed, exit 3: the command ended with an exit code other than 0" in printed


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unknown", "there is no Airflow connection 'nowhere'"),
        ("other", "'not_dispatch' has the type 'http', which is no cluster of dispatch"),
        ("image", "image='registry/image:1': the local cluster runs no containers"),
        ("rendered_wrong", "cpus='many' must be a whole number"),
        ("mapped_wrong[0]", "task 'mapped_wrong': cpus=0 must be a whole number"),
    ],
)
def test_what_cannot_be_launched_fails_at_once(inline: Inline, name: str, words: str) -> None:
    """No retry is used up for it, and the log says what to do."""
    told, printed = inline
    assert (told[name]["state"], told[name]["tries"]) == ("failed", 1)
    assert words in printed


def test_execution_timeout_stops_the_run(inline: Inline) -> None:
    """The trigger enforces it, for Airflow does not while a task is deferred."""
    told, printed = inline
    assert told["sleeps"]["state"] == "failed"
    assert "The run was stopped: the task's execution_timeout has passed" in printed


def test_the_run_s_output_is_in_the_log(inline: Inline) -> None:
    """The story: what was decided, what was seen, how it ended."""
    printed = inline[1]
    for words in ("Made the record of generation 1", "is authorized", "Outcome: succeeded."):
        assert words in printed


def test_nothing_is_left_open(inline: Inline) -> None:
    """Each inline trigger closes its database and cluster before its event loop ends."""
    for words in ("was never retrieved", "non-checked-in connection", "Event loop is closed"):
        assert words not in inline[1]
