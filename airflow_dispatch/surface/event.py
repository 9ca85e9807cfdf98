"""What a trigger tells its task, as plain JSON: the outcome, or why nothing was launched.

The outcome is what the task returns as its XCom and what its exceptions carry;
`docs/reference/operator.md` lists its fields. It is written by a triggerer and read by a worker,
possibly of another version: fields are only ever added.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from airflow_dispatch.core.causes import CauseKind
from airflow_dispatch.core.record import Incarnation, ObjectState, OutcomeState, Record
from airflow_dispatch.errors import ensure
from airflow_dispatch.ports.cluster import Places

DEADLINE = "the task's execution_timeout has passed"
"""Reason of the cancel by which a trigger enforces the task's deadline."""

Payload = dict[str, Any]


def refused(reason: str) -> Payload:
    """Nothing was launched."""
    return {"refused": reason}


def ended(
    record: Record, *, places: Places | None, result: Any = None, result_lost: str = ""
) -> Payload:
    """The run has its outcome. `result_lost` says why a result that may exist could not be read."""
    return {
        "outcome": outcome(record, places=places, result=result),
        "result_lost": result_lost,
    }


def outcome(record: Record, *, places: Places | None, result: Any = None) -> Payload:
    """The outcome of a record as the task hands it on."""
    state = record.state
    found = state.outcome
    ensure(found is not None, "only a record with an outcome has one to tell")
    assert found is not None  # noqa: S101 - for the type checker; checked above
    wanted = deciding_object(record)
    start = None if wanted is None else wanted.latest
    cause = found.cause
    return {
        "state": found.state.value,
        "cause": None if cause is None else cause.kind.value,
        "exit_code": _exit_code(record),
        "signal": cause.number if cause is not None and cause.kind is CauseKind.SIGNAL else None,
        "detail": "" if cause is None else cause.detail,
        "actor": found.actor,
        "reason": found.reason,
        "deadline_passed": found.state is OutcomeState.CANCELLED and found.reason == DEADLINE,
        "key": state.key.digest,
        "generation": state.key.generation,
        "cluster": state.cluster,
        "object": None if wanted is None else wanted.id,
        "host": "" if start is None else start.host,
        "submissions": len(state.submissions),
        **_times(state.created_at, start),
        "run_folder": "" if places is None else places.run_folder,
        "output": "" if places is None else places.output,
        "result": result,
    }


def deciding_object(record: Record) -> ObjectState | None:
    """The object that decided the outcome, or else the newest canonical one."""
    state = record.state
    if state.outcome is not None and state.outcome.object is not None:
        return state.object(state.outcome.object)
    newest = state.newest
    return None if newest is None or newest.canonical is None else state.object(newest.canonical)


def parsed_result(text: str) -> Any:
    """The value of a run's `result.json`; raises `ValueError` for what is no JSON."""
    return json.loads(text, parse_constant=_no_constant)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _exit_code(record: Record) -> int | None:
    found = record.state.outcome
    if found is None or found.state is OutcomeState.CANCELLED:
        return None
    if found.cause is None:
        return 0
    return found.cause.number if found.cause.kind is CauseKind.EXIT else None


def _times(created_at: datetime, start: Incarnation | None) -> Payload:
    """Times of the run, by the cluster's clock; the wait before it also by the supervisor's."""
    began = None if start is None else start.started_at
    over = None if start is None or start.verdict is None else start.verdict.ended_at
    return {
        "started_at": None if began is None else began.isoformat(),
        "ended_at": None if over is None else over.isoformat(),
        "queue_seconds": _between(created_at, began),
        "run_seconds": _between(began, over),
    }


def _between(one: datetime | None, other: datetime | None) -> float | None:
    if one is None or other is None:
        return None
    return round(max((other - one).total_seconds(), 0.0), 3)
