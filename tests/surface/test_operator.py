"""The operator: what it refuses while a DAG is parsed, what it defers with, what it raises."""

from __future__ import annotations

import json
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    TaskDeferralError,
    TaskDeferred,
)

from airflow_dispatch import errors, exceptions
from airflow_dispatch.core import codec
from airflow_dispatch.core.causes import MEANINGS, Cause, CauseKind
from airflow_dispatch.operators.dispatch import JOB_FIELDS, DispatchOperator
from airflow_dispatch.surface import event
from airflow_dispatch.triggers.dispatch import DispatchTrigger
from tests.surface.conftest import SetOption
from tests.unit.surface.test_event import PLACES, ended

TI = SimpleNamespace(
    id=uuid.UUID(int=7), dag_id="dag", run_id="run", task_id="train", map_index=3, try_number=2
)


def operator(**parameters: Any) -> DispatchOperator:
    """A task with the least that it takes."""
    given = {"task_id": "train", "cluster": "local", "command": ["true"], **parameters}
    return DispatchOperator(**given)


def deferred(task: DispatchOperator) -> TaskDeferred:
    """What its execution defers with."""
    with pytest.raises(TaskDeferred) as raised:
        task.execute({"ti": TI})  # type: ignore[typeddict-item]  # all that it takes of a context
    return raised.value


# --- while the DAG is parsed ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"cpus": 0}, "task 'train': cpus=0 must be a whole number from 1 to 10000"),
        ({"memory": "16gb"}, "unknown unit 'gb'"),
        ({"env": {"NOT-A-NAME": "1"}}, "'NOT-A-NAME' is none that a shell accepts"),
        ({"script": "true"}, "not command and script"),
        ({"on_clear": "later"}, "on_clear='later': write 'restart' or 'reattach'"),
        ({"on_clear": None}, "on_clear=None: write 'restart' or 'reattach'"),
    ],
)
def test_a_dag_with_a_bad_task_does_not_import(parameters: dict[str, Any], words: str) -> None:
    """The sentence names the task; tests/unit/surface/test_jobs.py has all the rest."""
    with pytest.raises(errors.InvalidJob) as refused:
        operator(**parameters)
    assert words in str(refused.value)
    assert isinstance(refused.value, ValueError)


def test_a_script_file_is_looked_for_beside_the_dag_file(tmp_path: Path) -> None:
    """Missing: the DAG does not import. There: it is read when the task runs."""
    (tmp_path / "dag.py").touch()
    (tmp_path / "train.sh").write_text("echo {{ not_rendered }}")
    with DAG(dag_id="d", schedule=None) as dag:
        dag.fileloc = str(tmp_path / "dag.py")
        with pytest.raises(errors.InvalidJob, match=r"missing.sh.* cannot be read"):
            operator(command=None, script_file="missing.sh")
        task = operator(task_id="other", command=None, script_file="train.sh")
    trigger = deferred(task).trigger
    job = codec.decode_job(trigger.serialize()[1]["job"])
    assert job.script == "echo {{ not_rendered }}"


def test_every_parameter_of_the_job_can_be_a_template() -> None:
    """Each field is a template field, and holds what the author gave."""
    given: dict[str, Any] = {name: f"{{{{ params.{name} }}}}" for name in JOB_FIELDS}
    given |= {"script": None, "script_file": None}
    task = operator(**given)
    assert set(task.template_fields) == set(JOB_FIELDS)
    assert {name: getattr(task, name) for name in JOB_FIELDS} == given


def test_a_mapped_task_checks_its_names_at_once_and_its_values_later() -> None:
    """`.partial` refuses an unknown parameter; a value is checked when the task is made of it."""
    with DAG(dag_id="d", schedule=None):
        with pytest.raises(TypeError, match="no_such"):
            DispatchOperator.partial(task_id="a", no_such=1)
        mapped = DispatchOperator.partial(task_id="b", cluster="local").expand(cpus=[1, 0])
    assert mapped.task_id == "b"
    with pytest.raises(exceptions.InvalidTask, match="cpus=0") as refused:
        mapped.unmap({"cpus": 0, "command": ["true"], "cluster": "local"})
    assert isinstance(refused.value, AirflowFailException), "it uses up no retry"


def test_a_dag_with_the_operator_can_be_serialized() -> None:
    """What the scheduler and the UI get: a JSON text, with the template fields in it."""
    from airflow.serialization.serialized_objects import DagSerialization

    with DAG(
        dag_id="d", schedule=None, start_date=datetime(2025, 1, 1, tzinfo=timezone.utc)
    ) as dag:
        operator(env={"A": "1"}, time_limit=timedelta(hours=1), script_file=None)
        DispatchOperator.partial(task_id="mapped", cluster="local").expand(command=[["a"], ["b"]])
    written = json.loads(json.dumps(DagSerialization.to_dict(dag)))
    read = DagSerialization.from_dict(written)
    assert read.get_task("train").task_type == "DispatchOperator"
    assert set(read.get_task("train").template_fields) == set(JOB_FIELDS)
    assert read.get_task("mapped").task_type == "DispatchOperator"


# --- on the worker --------------------------------------------------------------------------------


def test_execution_hands_the_job_to_a_trigger() -> None:
    """The trigger gets the rendered job and its very try, as plain text; nothing else is done."""
    task = operator(command=["python", 3], cpus="2", on_clear="reattach")
    found = deferred(task)
    assert found.method_name == "execute_complete"
    assert found.timeout is None
    path, arguments = found.trigger.serialize()
    assert path == "airflow_dispatch.triggers.dispatch.DispatchTrigger"
    job = codec.decode_job(arguments.pop("job"))
    assert (job.command, job.resources.cpus_per_task) == (("python", "3"), 2)
    assert arguments == {
        "dag_id": "dag",
        "run_id": "run",
        "task_id": "train",
        "map_index": 3,
        "ti_id": str(TI.id),
        "try_number": 2,
        "on_clear": "reattach",
        "deadline": None,
    }


def test_a_trigger_survives_airflow_s_encoding() -> None:
    """Arguments come back as they were, whatever names an author chose for variables."""
    from airflow.sdk.serde import deserialize, serialize

    env = {"__classname__": "os.system", "__type": "x", "__var": "y", "A": "ü\n"}
    path, arguments = deferred(operator(env=env)).trigger.serialize()
    again: Any = deserialize(json.loads(json.dumps(serialize(arguments))))
    assert again == arguments
    assert DispatchTrigger(**again).serialize() == (path, arguments)
    assert dict(codec.decode_job(again["job"]).env) == env


def test_defaults_come_from_the_site_s_options(option: SetOption) -> None:
    """A run without a time limit gets the site's, and so does its grace."""
    option(default_time_limit="2h", default_grace="5m")
    job = codec.decode_job(deferred(operator()).trigger.serialize()[1]["job"])
    assert (job.time_limit_seconds, job.grace_seconds) == (7200, 300)


def test_the_deadline_of_the_task_goes_along() -> None:
    """execution_timeout counts from the first start, wherever the trigger runs by then."""
    before = datetime.now(timezone.utc)
    arguments = deferred(operator(execution_timeout=timedelta(hours=1))).trigger.serialize()[1]
    deadline = datetime.fromisoformat(arguments["deadline"])
    assert timedelta(0) <= deadline - before - timedelta(hours=1) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("options", "parameters", "words"),
    [
        ({}, {"cpus": "{{ many }}"}, "cpus='{{ many }}' must be a whole number"),
        ({}, {"memory": "{{ much }}"}, "is not an amount of memory"),
        ({"default_time_limit": "soon"}, {}, "[dispatch] default_time_limit = 'soon'"),
    ],
)
def test_what_is_wrong_after_rendering_fails_without_retries(
    option: SetOption, options: dict[str, str], parameters: dict[str, Any], words: str
) -> None:
    """Nothing is deferred, so nothing is launched."""
    option(**options)
    with pytest.raises(exceptions.NotLaunched) as refused:
        operator(**parameters).execute({"ti": TI})  # type: ignore[typeddict-item]  # as above
    assert words in str(refused.value)
    assert "nothing was launched" in str(refused.value)
    assert isinstance(refused.value, AirflowFailException)


async def test_a_success_is_returned() -> None:
    """The outcome with the run's own result; Airflow makes it the XCom."""
    told = event.ended(await ended(), places=PLACES, result='{"accuracy": 0.97}')
    returned = operator().execute_complete({}, told)
    assert returned["result"] == {"accuracy": 0.97}
    assert returned["state"] == "succeeded"


@pytest.mark.parametrize("kind", CauseKind)
async def test_a_failure_is_raised_by_its_cause(kind: CauseKind) -> None:
    """One class for each cause; Airflow retries exactly where the table says that it helps."""
    number = 9 if kind in (CauseKind.EXIT, CauseKind.SIGNAL) else None
    record = await ended(1, cause=Cause(kind, number, "as the cluster said"))
    with pytest.raises(exceptions.RunFailed) as raised:
        operator().execute_complete({}, event.ended(record, places=PLACES))
    failure, meaning = raised.value, MEANINGS[kind]
    assert type(failure) is exceptions.BY_CAUSE[kind]
    assert isinstance(failure, errors.RunFailed)
    assert isinstance(failure, AirflowException)
    assert isinstance(failure, AirflowFailException) is not meaning.retry_helps
    assert failure.outcome["cause"] == kind.value
    for words in (kind.value, meaning.text, meaning.act, "as the cluster said", PLACES.output):
        assert words in str(failure)
    assert "\n" not in str(failure)


def test_each_cause_has_a_class_of_its_own() -> None:
    """None is missing, none is shared."""
    assert set(exceptions.BY_CAUSE) == set(CauseKind)
    assert len(set(exceptions.BY_CAUSE.values())) == len(CauseKind)


def outcome_of(**changes: Any) -> dict[str, Any]:
    """An event as a trigger of another version might send it."""
    outcome = {
        "state": "cancelled",
        "cause": None,
        "exit_code": None,
        "signal": None,
        "detail": "",
        "actor": "person:ada",
        "reason": "wrong data",
        "deadline_passed": False,
        "output": "",
        "result": None,
    }
    return {"outcome": outcome | changes, "result": None, "result_lost": ""}


@pytest.mark.parametrize(
    ("told", "kind", "words"),
    [
        (outcome_of(), exceptions.RunCancelled, "cancelled by person:ada: wrong data"),
        (
            outcome_of(deadline_passed=True, reason=event.DEADLINE),
            exceptions.DeadlinePassed,
            "execution_timeout has passed",
        ),
        (
            outcome_of(state="failed", cause="eaten_by_a_grue"),
            exceptions.EndUnknown,
            "The run failed, eaten_by_a_grue",
        ),
        (
            {**outcome_of(state="succeeded"), "result_lost": "the disk is gone"},
            exceptions.ResultLost,
            "the disk is gone. A retry of the task reads it again and does not run again",
        ),
        (
            {**outcome_of(state="succeeded"), "result": "{'a': 1}"},
            exceptions.ResultLost,
            "the file of DISPATCH_RESULT must hold one JSON value that an XCom can hold: Expecting",
        ),
        ({"refused": "cpus=9: too many"}, exceptions.NotLaunched, "cpus=9: too many"),
        (None, exceptions.NotLaunched, "another try of this task goes on"),
    ],
)
def test_every_other_end_is_raised_too(
    told: dict[str, Any] | None, kind: type[Exception], words: str
) -> None:
    """Cancelled, out of time, refused, superseded, unknown to this version, without its result."""
    with pytest.raises(kind) as raised:
        operator().execute_complete({}, told)
    assert words in str(raised.value)


@pytest.mark.parametrize("text", ["{'a': 1}", "\0"])
async def test_a_result_that_is_wrong_is_told_with_its_file(text: str) -> None:
    """And without the advice to try again, by which the same file would be read again."""
    told = event.ended(await ended(), places=PLACES, result=text)
    with pytest.raises(exceptions.ResultLost) as raised:
        operator().execute_complete({}, told)
    said = str(raised.value)
    assert f"{PLACES.result} must hold one JSON value" in said
    assert "a retry would only read the same file" in said
    assert raised.value.outcome["state"] == "succeeded"


def test_only_what_may_help_is_retried() -> None:
    """A person's cancel is final; a deadline or a lost result is worth another try."""
    assert issubclass(exceptions.RunCancelled, AirflowFailException)
    assert issubclass(exceptions.NotLaunched, AirflowFailException)
    assert not issubclass(exceptions.DeadlinePassed, AirflowFailException)
    assert not issubclass(exceptions.ResultLost, AirflowFailException)


def test_a_worker_that_is_stopped_stops_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    """Workers are evicted for reasons of their own; `on_kill` only says what is true."""
    operator().on_kill()
    assert "That stops nothing on the cluster" in capfd.readouterr().out


def test_a_trigger_that_failed_is_told_with_what_is_true_outside(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The task fails as Airflow has it, and its log says that a run may be going on."""
    with pytest.raises(TaskDeferralError):
        operator().resume_execution("__fail__", {"error": "Trigger failure"}, {})
    assert "a run may still be going on" in capfd.readouterr().out


def test_a_result_as_deep_as_allowed_passes_through_airflow() -> None:
    """The limit is one that Airflow's own encoding of XComs bears."""
    from airflow.sdk.serde import deserialize, serialize

    value = event.parsed_result("[" * 100 + "]" * 100)
    assert deserialize(serialize({"result": value})) == {"result": value}


def test_parameters_do_not_hide_those_of_airflow() -> None:
    """No field of the job has the name of one that every operator has."""
    task = BaseOperator(task_id="t")
    assert [name for name in JOB_FIELDS if hasattr(task, name)] == []
