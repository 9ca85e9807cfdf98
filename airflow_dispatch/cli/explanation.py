"""What a job waits for, in plain words: what `airflow dispatch explain` says.

Where it stands, each wait with what ends it and which promise holds the job back, what can be done,
and who would do it: with nobody there, the best explanation is that nobody looks after the job.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_dispatch.cli import advice, document, facts, words
from airflow_dispatch.cli.standing import Standing
from airflow_dispatch.core.codec import Json
from airflow_dispatch.core.record import State
from airflow_dispatch.core.status import Receipt, Stage
from airflow_dispatch.core.steps import WAITS, Waiting
from airflow_dispatch.surface.event import deciding_object

START_ONE = "start a triggerer, or run `airflow dispatch supervise`"

STAGES: dict[Stage, str] = {
    Stage.LAUNCHING: "It is being launched: nothing of it may run yet.",
    Stage.GATED: "Its object is on the cluster, held behind its gate: it does not run yet.",
    Stage.QUEUED: "Its gate is open, and the cluster has it in its queue.",
    Stage.RUNNING: "It runs.",
    Stage.ENDING: "It is ending.",
    Stage.CLEANING_UP: "It has its outcome; what is left of it is being cleaned up.",
    Stage.SETTLED: "It is over: every launch is accounted for, and nothing will happen any more.",
}


def lines(standing: Standing) -> list[str]:
    """The explanation, a paragraph a line."""
    return [words.clean(line) for line in _lines(standing)]


def of(standing: Standing) -> dict[str, Json]:
    """The explanation for programs: the same sentences, and the waits one by one."""
    waits: list[Json] = [
        {"kind": one.kind.value, "sentences": list(wait(one))} for one in standing.status.waits
    ]
    return {
        "digest": standing.digest,
        "stage": standing.status.stage.value,
        "unattended": standing.status.unattended,
        "explanation": list(lines(standing)),
        "waits": waits,
        "outcome": document.outcome(standing.record.state),
    }


def _lines(standing: Standing) -> Iterator[str]:
    state, status = standing.record.state, standing.status
    yield f"{words.job(state.key)}, run {state.key.task.run_id}, on cluster {state.cluster}."
    yield STAGES[status.stage]
    if state.outcome is not None:
        yield f"Outcome: {facts.outcome_words(state.outcome)}."
        decided = deciding_object(standing.record)
        places = None if decided is None else standing.places.get(decided.id)
        if places is not None and places.output:
            yield f"  Its output: {places.output}"
    if status.receipt is not Receipt.NONE:
        yield f"The cancel is {facts.RECEIPTS[status.receipt]}."
    for one in status.waits:
        yield from wait(one)
        yield from _earlier(state, one)
    if status.next_step is not None:
        yield f"The next step of a supervisor is to {advice.STEPS[status.next_step]}."
    yield from _attendance(standing)


def wait(one: Waiting) -> Iterator[str]:
    """One wait: what for, which promise holds the job back, what ends it, what to do."""
    meaning, told = WAITS[one.kind], advice.WAITS[one.kind]
    detail = f" ({one.detail})" if one.detail else ""
    yield f"It waits for {meaning.text}{detail}."
    if meaning.promise:
        yield (
            f"  The promise that holds it back: {advice.PROMISES[meaning.promise]}"
            f" [{meaning.promise}]."
        )
    until = "" if one.until is None else f", at the latest at {words.moment(one.until)}"
    yield f"  What ends it: {told.ends[0].lower()}{told.ends[1:]}{until}."
    yield f"  What to do: {told.act}."


def _earlier(state: State, one: Waiting) -> Iterator[str]:
    """Where to read on, if the wait is for an earlier try."""
    if one.kind.value == "predecessor" and state.predecessor is not None:
        task = state.key.task
        mapped = f" --map-index {task.map_index}" if task.map_index >= 0 else ""
        names = f"{task.dag_id} {task.task_id} {task.run_id}{mapped}"
        command = f"airflow dispatch explain {names} --generation {state.predecessor}"
        yield f"  Read on: {command}"


def _attendance(standing: Standing) -> Iterator[str]:
    attendance = standing.attendance
    since = f"since {words.moment(standing.since)}, {words.ago(standing.since, standing.now)}"
    if standing.held:
        ends = words.moment(attendance.until)
        yield f"{attendance.owner} looks after it; its lease ends at {ends}."
    elif standing.status.unattended:
        yield f"NOBODY HAS LOOKED AFTER IT {since}. What runs goes on; {START_ONE}."
    elif standing.since > standing.record.state.created_at and not standing.status.settled:
        ago = words.ago(standing.since, standing.now)
        yield f"It was looked after {ago}; a supervisor comes by again within moments."
    elif not standing.status.settled:
        yield f"Nobody has looked after it {since}: a supervisor should come by within moments."
