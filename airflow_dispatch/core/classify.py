"""`classify(state, row)`: whether the task instance still wants this run.

The single answer for everyone who may cancel.

The trigger's loop, its `on_kill`, the next try, the listener and the reconciler all call it, and
hooks only wake them: Airflow calls hooks late, twice, for its own restarts, or not at all. It is
level-triggered: it looks at rows, never at an event. It never cancels on time alone, nor on an
absence that a wrong or restored database would show as well; where rows leave it open the answer is
`ASK`, which lets what runs go on and opens no gate. [follows-the-task]

How the rows behave was measured on Airflow 3.3: a clear of a task that does not run right then
raises `max_tries` to `try_number + retries`, a retry, an orphan reset and a lost worker leave it;
the id of a task instance changes with all of them; `clear_number` rises with any clear in the DAG
run; a DAG run that was deleted and created again keeps its run_id and gets another surrogate key.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from airflow_dispatch.core.record import Binding, OnClear, OutcomeState, State


class Wish(str, Enum):
    """What the task instance wants of the run."""

    KEEP = "keep"
    """This very try wants it, or a later one will and may adopt it: go on."""
    ADOPT = "adopt"
    """Another try, which is there now, wants this same run."""
    CANCEL = "cancel"
    """No try wants it any more."""
    ASK = "ask"
    """The rows do not tell; a person must."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """What one snapshot of the metadata database shows of one task instance.

    `deployment` is the id found in the database that was read ("" if it has none). `dag_run_id` is
    None where there is no DAG run of that run_id, `ti_id` is None where there is no task instance.
    `cleared` and `deleted` say that the audit log names the task as cleared, or the run or DAG as
    deleted, since the record was created.
    """

    deployment: str
    dag_run_id: int | None = None
    ti_id: str | None = None
    state: str | None = None
    try_number: int = 0
    max_tries: int = 0
    clear_number: int = 0
    cleared: bool = False
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """A wish and, in words for the record and the log, why."""

    wish: Wish
    why: str


FINISHED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
PRESENT = frozenset({"deferred", "scheduled", "queued", "running"})
RESTARTING = "restarting"


def classify(state: State, row: TaskRow) -> Answer:
    """Whether the task instance of `row` still wants the run that `state` records."""
    if row.deployment != state.key.task.deployment:
        return Answer(Wish.ASK, "the database that was read is not the one this record belongs to")
    if row.dag_run_id is None or row.ti_id is None:
        return _missing(row)
    if row.dag_run_id != state.binding.dag_run_id:
        return Answer(Wish.CANCEL, "the DAG run was deleted and created again")
    if row.state in FINISHED and state.outcome is None:
        return Answer(Wish.CANCEL, f"the task instance is {row.state}")
    if _same_try(state.binding, row):
        return _same(state, row)
    return _other_try(state, row)


def _missing(row: TaskRow) -> Answer:
    if row.dag_run_id is not None:
        return Answer(Wish.CANCEL, "the task instance was deleted while its DAG run is still there")
    if row.deleted:
        return Answer(Wish.CANCEL, "the DAG run was deleted")
    return Answer(
        Wish.ASK,
        "the DAG run is not in the database, and no audit line says that somebody deleted it",
    )


def _same_try(binding: Binding, row: TaskRow) -> bool:
    return (binding.ti_id, binding.try_number) == (row.ti_id, row.try_number)


def _same(state: State, row: TaskRow) -> Answer:
    if row.state == RESTARTING and not _reattaches(state):
        return Answer(Wish.CANCEL, "the task was cleared while a worker had it")
    return Answer(Wish.KEEP, f"the task instance is {row.state or 'waiting'}")


def _other_try(state: State, row: TaskRow) -> Answer:
    """A row with another id or try number: cleared, or carried on by another try."""
    if _was_cleared(state.binding, row):
        if not _reattaches(state):
            return Answer(Wish.CANCEL, "the task was cleared")
    elif state.outcome is not None and state.outcome.state is not OutcomeState.SUCCEEDED:
        return Answer(Wish.CANCEL, "the run has ended without success and the task tries again")
    if row.state in PRESENT:
        return Answer(Wish.ADOPT, f"try {row.try_number} of the task carries on with this run")
    return Answer(Wish.KEEP, f"the task instance is {row.state or 'waiting for its next try'}")


def _reattaches(state: State) -> bool:
    """Whether a clear leaves the run to the next try: one that is still open, where asked for."""
    return state.binding.on_clear is OnClear.REATTACH and state.outcome is None


def _was_cleared(binding: Binding, row: TaskRow) -> bool:
    """`max_tries` proves a clear; a risen `clear_number` only where the audit log names it."""
    if row.max_tries != binding.max_tries or row.state == RESTARTING:
        return True
    return row.clear_number > binding.clear_number and row.cleared
