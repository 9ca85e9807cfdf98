"""One job as a table of facts: what `airflow dispatch show` prints for people.

What stands first is what one looks for first: how it stands, then what it waits for, who looks
after it, what of it is on the cluster, where its output is. A fact that there is not is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from airflow_dispatch.cli import document, words
from airflow_dispatch.cli.standing import Standing
from airflow_dispatch.core.causes import MEANINGS
from airflow_dispatch.core.record import Call, ObjectState, Outcome, OutcomeState
from airflow_dispatch.core.status import Receipt
from airflow_dispatch.core.steps import WAITS, Waiting

Row = dict[str, str]

RECEIPTS: dict[Receipt, str] = {
    Receipt.NONE: "no cancel",
    Receipt.COMMITTED: "committed: nothing new starts; what runs is still to be stopped",
    Receipt.STOPPING: "stopping: the cluster took the stop",
    Receipt.COMPLETE: "complete: nothing of the job runs or can run any more",
}


def rows(standing: Standing) -> list[Row]:
    """The facts, in order."""
    return [{"fact": name, "value": words.clean(value)} for name, value in _facts(standing)]


def _facts(standing: Standing) -> Iterator[tuple[str, str]]:
    yield from _who(standing)
    yield from _how(standing)
    yield from _outside(standing)
    yield from _times(standing)


def _who(standing: Standing) -> Iterator[tuple[str, str]]:
    state = standing.record.state
    key = state.key
    yield "digest", key.digest
    yield "dag_id", key.task.dag_id
    yield "task_id", key.task.task_id
    yield "run_id", key.task.run_id
    if key.task.map_index >= 0:
        yield "map_index", str(key.task.map_index)
    yield "generation", _generation(standing)
    yield "cluster", f"{state.cluster} ({state.fingerprint})"


def _generation(standing: Standing) -> str:
    state = standing.record.state
    after = "" if state.predecessor is None else f", after generation {state.predecessor}"
    return f"{state.key.generation}{after}; try {state.binding.try_number} of the task wants it"


def _how(standing: Standing) -> Iterator[tuple[str, str]]:
    state, status = standing.record.state, standing.status
    yield "stage", status.stage.value
    yield "outcome", outcome_words(state.outcome)
    if status.receipt is not Receipt.NONE:
        yield "cancel", RECEIPTS[status.receipt]
    yield "settled", "yes" if status.settled else "no"
    yield "attended", attended_words(standing)
    for one in status.waits:
        yield "waits for", wait_words(one)
    if status.next_step is not None:
        yield "next step", status.next_step.value
    yield "revision", str(standing.record.revision)


def outcome_words(outcome: Outcome | None) -> str:
    """The outcome with, for a failure, what it means and what to do."""
    if outcome is None:
        return "none yet"
    if outcome.state is OutcomeState.FAILED and outcome.cause is not None:
        meaning = MEANINGS[outcome.cause.kind]
        return f"{outcome} ({meaning.text}; {meaning.act})"
    return str(outcome)


def wait_words(one: Waiting) -> str:
    """What it waits for, for how long at most, and which promise holds it back."""
    meaning = WAITS[one.kind]
    detail = f": {one.detail}" if one.detail else ""
    until = f", until {words.moment(one.until)} at the latest" if one.until is not None else ""
    held = f" [{meaning.promise}]" if meaning.promise else ""
    return f"{meaning.text}{detail}{until}{held}"


def attended_words(standing: Standing) -> str:
    """Who looks after the job, or since when nobody has."""
    attendance = standing.attendance
    if standing.held:
        return f"by {attendance.owner}, whose lease ends at {words.moment(attendance.until)}"
    if standing.status.settled:
        return "no, and there is no need: it is settled"
    since = f"nobody since {words.moment(standing.since)}"
    alarm = "NO: " if standing.status.unattended else ""
    return f"{alarm}{since}, {words.ago(standing.since, standing.now)}"


def _outside(standing: Standing) -> Iterator[tuple[str, str]]:
    state = standing.record.state
    for submission in state.submissions:
        chosen = f", object {submission.canonical}" if submission.canonical else ""
        yield (
            f"submission {submission.number}",
            words.count(len(submission.attempts), "attempt") + chosen,
        )
    for number, one in enumerate(state.objects, start=1):
        yield f"object {number}", _object(standing, one)
        places = standing.places.get(one.id)
        if places is not None:
            yield f"object {number} folder", places.run_folder
            yield f"object {number} output", places.output
    for call in state.calls:
        yield f"call {call.number}", _call(call)


def _object(standing: Standing, one: ObjectState) -> str:
    state = standing.record.state
    traits = [one.phase.value]
    latest = one.latest
    if latest is not None and latest.verdict is not None:
        how = latest.verdict.cause
        traits.append("succeeded" if how is None else str(how))
    if latest is not None and latest.host:
        traits.append(f"on {latest.host}")
    if not state.knows(one.mark):
        traits.append("FOREIGN")
    if one.retired:
        traits.append(f"retired ({one.retired})")
    if one.gone:
        traits.append("gone")
    if one.lost:
        traits.append("lost")
    if one.note:
        traits.append(one.note)
    return f"{one.id}: {', '.join(traits)}"


def _call(call: Call) -> str:
    intent = call.intent
    kind = document.intent_kind(intent)
    reply = "no answer on record" if call.reply is None else type(call.reply).__name__.lower()
    return f"{kind}, committed at revision {call.revision}: {reply}"


def _times(standing: Standing) -> Iterator[tuple[str, str]]:
    state = standing.record.state
    yield "created", words.moment(state.created_at)
    for one in state.objects:
        for start in one.incarnations:
            if start.started_at is not None:
                yield "started", words.moment(start.started_at)
            if start.verdict is not None and start.verdict.ended_at is not None:
                yield "ended", words.moment(start.verdict.ended_at)
    if state.outcome_at is not None:
        yield "outcome at", words.moment(state.outcome_at)
    if state.quiet_at is not None:
        yield "quiet at", words.moment(state.quiet_at)
