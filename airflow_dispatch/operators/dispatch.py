"""`DispatchOperator`: one training run on a cluster, as one task.

The worker only renders the job, checks it and defers; it has no database and decides nothing. The
trigger makes or adopts the record and supervises the run. When the run has its outcome the task
goes on in a worker, hands the outcome on as XCom or raises the exception that tells how the run
ended. The path of this class is stored in databases: it does not change.

Every DAG file imports this module, so it loads what checking a job takes and no more: no adapter,
no database library, not even the supervisor. `execute` imports the rest, in the worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow.sdk import BaseOperator

from airflow_dispatch.core.causes import MEANINGS, CauseKind
from airflow_dispatch.core.job import Job
from airflow_dispatch.errors import DispatchError, InvalidJob
from airflow_dispatch.exceptions import (
    BY_CAUSE,
    DeadlinePassed,
    InvalidTask,
    NotLaunched,
    ResultLost,
    RunCancelled,
    RunFailed,
)
from airflow_dispatch.surface import jobs

if TYPE_CHECKING:
    from airflow.sdk import Context, XComArg

    Text = str | XComArg
    Words = Sequence[str | float | PurePath | XComArg] | XComArg
    Values = Mapping[str, str | float | XComArg] | XComArg
    Whole = int | str | XComArg
    Time = str | float | timedelta | XComArg

JOB_FIELDS = (
    "cluster",
    "command",
    "script",
    "script_file",
    "workdir",
    "env",
    "cpus",
    "memory",
    "nodes",
    "tasks_per_node",
    "gpus",
    "gpu_type",
    "time_limit",
    "start_within",
    "grace",
    "account",
    "partition",
    "qos",
    "queue_name",
    "image",
    "mounts",
    "options",
)


class DispatchOperator(BaseOperator):
    """Sends one run to a cluster and supervises it until its record says how it ended.

    `docs/reference/operator.md` describes each parameter. Give exactly one of `command`, `script`
    and `script_file`.
    """

    template_fields: Sequence[str] = JOB_FIELDS
    template_fields_renderers: ClassVar[dict[str, str]] = {
        "command": "json",
        "script": "bash",
        "env": "json",
    }
    ui_color = "#d8e8f4"

    def __init__(
        self,
        *,
        cluster: Text,
        command: Words | str | None = None,
        script: Text | None = None,
        script_file: Text | PurePath | None = None,
        workdir: Text | PurePath | None = None,
        env: Values | None = None,
        cpus: Whole | None = None,
        memory: Text | None = None,
        nodes: Whole | None = None,
        tasks_per_node: Whole | None = None,
        gpus: Whole | None = None,
        gpu_type: Text | None = None,
        time_limit: Time | None = None,
        start_within: Time | None = None,
        grace: Time | None = None,
        account: Text | None = None,
        partition: Text | None = None,
        qos: Text | None = None,
        queue_name: Text | None = None,
        image: Text | None = None,
        mounts: Words | None = None,
        options: Values | None = None,
        unmatched: str = "auto",
        on_clear: str = "restart",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.cluster = cluster
        self.command = command
        self.script = script
        self.script_file = script_file
        self.workdir = workdir
        self.env = env
        self.cpus = cpus
        self.memory = memory
        self.nodes = nodes
        self.tasks_per_node = tasks_per_node
        self.gpus = gpus
        self.gpu_type = gpu_type
        self.time_limit = time_limit
        self.start_within = start_within
        self.grace = grace
        self.account = account
        self.partition = partition
        self.qos = qos
        self.queue_name = queue_name
        self.image = image
        self.mounts = mounts
        self.options = options
        self.unmatched = unmatched
        self.on_clear = on_clear
        self._check()

    def execute(self, context: Context) -> NoReturn:
        """Defer to a trigger, with the rendered job; nothing outside is touched."""
        from airflow_dispatch.core import codec  # noqa: PLC0415 - see the module
        from airflow_dispatch.triggers.dispatch import DispatchTrigger  # noqa: PLC0415 - as above

        job = self._job()
        ti = context["ti"]
        deadline = self.execution_timeout and datetime.now(timezone.utc) + self.execution_timeout
        self.log.info("Handing the run over to a trigger, for cluster %r", job.cluster)
        self.defer(
            trigger=DispatchTrigger(
                job=codec.encode_job(job),
                dag_id=ti.dag_id,
                run_id=ti.run_id,
                task_id=ti.task_id,
                map_index=-1 if ti.map_index is None else ti.map_index,
                ti_id=str(ti.id),
                try_number=ti.try_number,
                on_clear=self.on_clear,
                deadline=deadline.isoformat() if deadline else None,
            ),
            method_name="execute_complete",
        )

    def execute_complete(
        self,
        context: Context,  # noqa: ARG002 - Airflow passes it by position
        event: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Hand the outcome on, or raise what the run came to; see `airflow_dispatch.exceptions`."""
        from airflow_dispatch.surface.event import parsed_result  # noqa: PLC0415 - see the module

        if event is None:
            raise NotLaunched("another try of this task goes on; nothing was launched for this one")
        if "refused" in event:
            raise NotLaunched(event["refused"])
        outcome: dict[str, Any] = event["outcome"]
        if outcome["state"] != "succeeded":
            raise _failure(outcome)
        if event["result_lost"]:
            lost = _result_wrong if event.get("result_wrong") else _result_lost
            raise lost(event["result_lost"], event)
        if event["result"] is not None:
            try:
                outcome["result"] = parsed_result(event["result"])
            except ValueError as error:
                raise _result_wrong(str(error), event) from error
        self.log.info("The run succeeded. Its output: %s", outcome["output"] or "(nowhere)")
        return outcome

    def on_kill(self) -> None:
        """Only say what is true: the worker never decides about the run."""
        self.log.warning(
            "This worker was told to stop. That stops nothing on the cluster: whether a run goes on"
            " follows from the task, by its trigger or by `airflow dispatch supervise`."
        )

    def resume_execution(
        self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context
    ) -> Any:
        """Go on after the trigger; where that failed, say first what is true outside."""
        if next_method == "__fail__":
            self.log.error(
                "The trigger failed without an outcome, so a run may still be going on. If this"
                " task is tried again, the next try adopts that run; if it is not, `airflow"
                " dispatch supervise` stops it."
            )
        return super().resume_execution(next_method, next_kwargs, context)

    def _check(self) -> None:
        """Refuse, while the DAG is parsed, what can be known to be wrong by then."""
        try:
            jobs.choice("on_clear", self.on_clear, among=jobs.ON_CLEAR)
            jobs.check(self._parameters(), folder=self._folder())
        except InvalidJob as error:
            raise InvalidTask(f"task {self.task_id!r}: {error}") from None

    def _job(self) -> Job:
        from airflow_dispatch.surface import configuration, options  # noqa: PLC0415 - see the module

        try:
            defaults = jobs.Defaults(
                time_limit_seconds=int(configuration.seconds(options.DEFAULT_TIME_LIMIT)),
                grace_seconds=int(configuration.seconds(options.DEFAULT_GRACE)),
            )
            return jobs.build(self._parameters(), defaults=defaults, folder=self._folder())
        except DispatchError as error:
            raise NotLaunched(f"{error} (nothing was launched)") from error

    def _parameters(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in (*JOB_FIELDS, "unmatched")}

    def _folder(self) -> Path | None:
        """Where the DAG file is, once the task has a DAG that came from a file."""
        dag = self.get_dag()
        return Path(dag.fileloc).parent if dag is not None and dag.fileloc else None


def _result_wrong(why: str, event: dict[str, Any]) -> ResultLost:
    # A triggerer may be older than this worker, and not name the file.
    file = event.get("result_file") or "the file of DISPATCH_RESULT"
    return ResultLost(
        f"The run ended well, but {file} must hold one JSON value that an XCom can hold: {why}."
        " Mend what writes it and clear the task, which runs again; a retry would only read the"
        " same file",
        event["outcome"],
    )


def _result_lost(why: str, event: dict[str, Any]) -> ResultLost:
    return ResultLost(
        f"The run ended well, but its result could not be read: {why}. A retry of the task reads it"
        " again and does not run again",
        event["outcome"],
    )


def _failure(outcome: dict[str, Any]) -> RunFailed:
    """The exception that an outcome other than success comes to."""
    where = f" Its output: {outcome['output']}" if outcome["output"] else ""
    if outcome["deadline_passed"]:
        return DeadlinePassed(f"The run was stopped: {outcome['reason']}.{where}", outcome)
    if outcome["state"] == "cancelled":
        message = f"The run was cancelled by {outcome['actor']}: {outcome['reason']}.{where}"
        return RunCancelled(message, outcome)
    # A triggerer may be newer than this worker, and know causes that this one does not.
    known = outcome["cause"] in {kind.value for kind in CauseKind}
    kind = CauseKind(outcome["cause"]) if known else CauseKind.UNKNOWN
    meaning = MEANINGS[kind]
    number = outcome["exit_code"] if kind is CauseKind.EXIT else outcome["signal"]
    what = outcome["cause"] if number is None else f"{outcome['cause']} {number}"
    detail = f" ({outcome['detail']})" if outcome["detail"] else ""
    return BY_CAUSE[kind](
        f"The run failed, {what}: {meaning.text}{detail}. What to do: {meaning.act}.{where}",
        outcome,
    )
