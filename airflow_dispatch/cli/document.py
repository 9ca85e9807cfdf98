"""One job as a JSON document: what `airflow dispatch show -o json` prints, for programs.

`docs/reference/cli.md` lists every field. `schema` is raised when a field changes its meaning or
goes; new fields may come at any time. Times are ISO 8601 in UTC, absent values are null, numbers
are numbers. The script of a job stands in the record only: here is its size.
"""

from __future__ import annotations

import json

from typing_extensions import assert_never

from airflow_dispatch.cli import words
from airflow_dispatch.cli.standing import Standing
from airflow_dispatch.core import codec
from airflow_dispatch.core.causes import MEANINGS, Cause
from airflow_dispatch.core.codec import Json
from airflow_dispatch.core.job import Job
from airflow_dispatch.core.record import (
    Call,
    Incarnation,
    Intent,
    ObjectState,
    Open,
    Outcome,
    Start,
    State,
    Stop,
    StopJob,
    Submission,
    Withdraw,
)
from airflow_dispatch.core.steps import WAITS, Waiting

SCHEMA = 1


def of(standing: Standing) -> dict[str, Json]:
    """The whole document."""
    state, status = standing.record.state, standing.status
    key = state.key
    return {
        "schema": SCHEMA,
        "digest": key.digest,
        "key": {
            "deployment": key.task.deployment,
            "dag_id": key.task.dag_id,
            "run_id": key.task.run_id,
            "task_id": key.task.task_id,
            "map_index": key.task.map_index,
            "generation": key.generation,
        },
        "revision": standing.record.revision,
        "stage": status.stage.value,
        "outcome": outcome(state),
        "receipt": status.receipt.value,
        "settled": status.settled,
        "attended": {
            "owner": standing.attendance.owner,
            "until": words.stamp(standing.attendance.until),
            "unattended": status.unattended,
        },
        "waits": [wait(one) for one in status.waits],
        "next_step": None if status.next_step is None else status.next_step.value,
        "cluster": {"name": state.cluster, "fingerprint": state.fingerprint},
        "task_instance": {
            "dag_run_id": state.binding.dag_run_id,
            "ti_id": state.binding.ti_id,
            "try_number": state.binding.try_number,
            "on_clear": state.binding.on_clear.value,
        },
        "predecessor": state.predecessor,
        "submissions": [_submission(one) for one in state.submissions],
        "objects": [_object(standing, one) for one in state.objects],
        "calls": [_call(one) for one in state.calls],
        "permits": [
            {"object": owner, "number": permit.number, "first": permit.first, "last": permit.last}
            for owner, permit in state.permits
        ],
        "times": {
            "created_at": words.stamp(state.created_at),
            "outcome_at": words.stamp(state.outcome_at),
            "quiet_at": words.stamp(state.quiet_at),
            "read_at": words.stamp(standing.now),
        },
        "job": _job(standing.record.job),
    }


def outcome(state: State) -> Json:
    """The outcome, or null while there is none."""
    known: Outcome | None = state.outcome
    if known is None:
        return None
    return {
        "state": known.state.value,
        "cause": None if known.cause is None else cause(known.cause),
        "actor": known.actor,
        "reason": known.reason,
        "object": known.object,
    }


def cause(known: Cause) -> Json:
    """A cause with what it means and what to do."""
    meaning = MEANINGS[known.kind]
    return {
        "kind": known.kind.value,
        "number": known.number,
        "detail": known.detail,
        "meaning": meaning.text,
        "act": meaning.act,
        "retry_helps": meaning.retry_helps,
    }


def wait(one: Waiting) -> Json:
    """One thing that the job waits for."""
    meaning = WAITS[one.kind]
    return {
        "kind": one.kind.value,
        "text": meaning.text,
        "promise": meaning.promise or None,
        "detail": one.detail,
        "until": words.stamp(one.until),
    }


def intent_kind(intent: Intent) -> str:
    """The kind of a call, as capabilities and the table of steps name it."""
    match intent:
        case Start():
            return "start"
        case Open():
            return "open"
        case Stop():
            return "stop"
        case StopJob():
            return "stop_job"
        case Withdraw():
            return "withdraw"
        case _:
            assert_never(intent)


def _submission(one: Submission) -> Json:
    return {
        "number": one.number,
        "canonical": one.canonical,
        "attempts": [
            {
                "number": attempt.number,
                "tag": attempt.tag,
                "call": attempt.call,
                "never_landed": attempt.never_landed,
            }
            for attempt in one.attempts
        ],
    }


def _object(standing: Standing, one: ObjectState) -> Json:
    places = standing.places.get(one.id)
    state = standing.record.state
    return {
        "id": one.id,
        "submission": one.mark.submission,
        "attempt": one.mark.attempt,
        "phase": one.phase.value,
        "canonical": any(s.canonical == one.id for s in state.submissions),
        "foreign": not state.knows(one.mark),
        "retired": one.retired or None,
        "note": one.note,
        "shown_at": words.stamp(one.shown_at),
        "gone": one.gone,
        "lost": one.lost,
        "starts": [_start(start) for start in one.incarnations],
        "run_folder": None if places is None else places.run_folder,
        "output": None if places is None else places.output,
    }


def _start(start: Incarnation) -> Json:
    verdict = start.verdict
    return {
        "count": start.start_count,
        "started": start.started,
        "started_at": words.stamp(start.started_at),
        "host": start.host,
        "idle": start.idle,
        "verdict": None
        if verdict is None
        else {
            "source": verdict.source.value,
            "cause": None if verdict.cause is None else cause(verdict.cause),
            "ended_at": words.stamp(verdict.ended_at),
        },
    }


def _call(call: Call) -> Json:
    intent = call.intent
    return {
        "number": call.number,
        "kind": intent_kind(intent),
        "object": intent.object if isinstance(intent, (Open, Stop, Withdraw)) else None,
        "revision": call.revision,
        "deadline": words.stamp(call.deadline),
        "answered": call.answered,
        "reply": None if call.reply is None else type(call.reply).__name__.lower(),
    }


def _job(job: Job) -> Json:
    """The job as the record has it, with the size of its script in place of the script."""
    written: dict[str, Json] = json.loads(codec.encode_job(job))["job"]
    written.pop("script", None)
    return {**written, "script_bytes": len(job.script.encode())}
