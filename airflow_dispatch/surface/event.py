"""What a trigger tells its task, as plain JSON: the outcome, or why nothing was launched.

The outcome is what the task returns as its XCom and what its exceptions carry;
`docs/reference/operator.md` lists its fields. It is written by a triggerer and read by a worker,
possibly of another version: fields are only ever added.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from airflow_dispatch import limits
from airflow_dispatch.core.causes import CauseKind
from airflow_dispatch.core.record import Incarnation, ObjectState, OutcomeState, Record
from airflow_dispatch.errors import ensure
from airflow_dispatch.ports.cluster import Places

DEADLINE = "the task's execution_timeout has passed"
"""Reason of the cancel by which a trigger enforces the task's deadline."""

RESERVED_KEYS = ("__classname__", "__id__")
"""Keys by which Airflow's XCom tells objects from dictionaries."""
UNCARRIED = re.compile("[\\0\\ud800-\\udfff]")
"""Characters that JSON can write and PostgreSQL's or UTF-8 text cannot."""

Payload = dict[str, Any]


def refused(reason: str) -> Payload:
    """Nothing was launched."""
    return {"refused": reason}


def ended(
    record: Record, *, places: Places | None, result: str | None = None, result_lost: str = ""
) -> Payload:
    """The run has its outcome. `result_lost` says why a result that may exist could not be read.

    The result stays the text that the run wrote, because Airflow reads meaning into the keys of
    what it passes on; the task takes it apart. `result_wrong` says that `result_lost` tells of what
    the run wrote, which another look would only find again.
    """
    wrong = result is not None and "\0" in result
    if wrong:
        result, result_lost = None, "it holds a NUL character, so it is no JSON"
    return {
        "outcome": outcome(record, places=places),
        "result": result,
        "result_lost": result_lost,
        "result_wrong": wrong,
        "result_file": "" if places is None else places.result,
    }


def outcome(record: Record, *, places: Places | None) -> Payload:
    """The outcome of a record as the task hands it on, but for the run's own result."""
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
        "detail": "" if cause is None else _plain(cause.detail),
        "actor": found.actor,
        "reason": _plain(found.reason),
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
        "result": None,
    }


def deciding_object(record: Record) -> ObjectState | None:
    """The object that decided the outcome, or else the newest canonical one."""
    state = record.state
    if state.outcome is not None and state.outcome.object is not None:
        return state.object(state.outcome.object)
    newest = state.newest
    return None if newest is None or newest.canonical is None else state.object(newest.canonical)


def parsed_result(text: str) -> Any:
    """The value of a run's `result.json`; raises `ValueError` for what is none, or too large.

    Or for what is JSON and cannot be an XCom: Airflow would fail the task of a run that ended well,
    with words that name neither the run nor its result.
    """
    if len(text.encode()) > limits.RESULT_BYTES_MAX:
        raise ValueError(f"it is larger than {limits.RESULT_BYTES_MAX >> 10} KiB")
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise _too_deep() from None
    # A stack of our own: what is nested too deeply for Airflow may be so for Python, too.
    todo = [(value, 1)]
    while todo:
        inner, depth = todo.pop()
        if isinstance(inner, dict):
            todo += [(one, depth) for one in inner]
            _check_keys(inner)
        if isinstance(inner, (dict, list)):
            if depth > limits.RESULT_DEPTH_MAX:
                raise _too_deep()
            todo += [(one, depth + 1) for one in _values(inner)]
        else:
            _check_plain(inner)
    return value


def _values(inner: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return inner.values() if isinstance(inner, dict) else inner


def _check_keys(inner: dict[str, Any]) -> None:
    for name in RESERVED_KEYS:
        if name in inner:
            raise ValueError(f"it holds the key {name!r}, which Airflow keeps for itself")


def _check_plain(value: object) -> None:
    """What no XCom holds: databases and Airflow's own encodings refuse it."""
    if isinstance(value, str):
        found = UNCARRIED.search(value)
        if found is not None:
            raise ValueError(f"it holds the character {found[0]!r}, which no database takes")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("it holds a number that is too large for a float")
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise ValueError("it holds a whole number of more than 64 bits: write it as text")


def _too_deep() -> ValueError:
    return ValueError(f"it is nested more than {limits.RESULT_DEPTH_MAX} levels deep")


def _no_constant(name: str) -> None:
    raise ValueError(f"it holds {name}, which is no JSON")


def _plain(text: str) -> str:
    """Text that every database takes."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


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
