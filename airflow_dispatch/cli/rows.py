"""Jobs and commits as rows: what `list` and `history` print.

Narrow for people, with short digests and the sentence of each commit; full for programs, with
typed values and the payload.
"""

from __future__ import annotations

import json

from airflow_dispatch.cli import document, words
from airflow_dispatch.cli.standing import Standing
from airflow_dispatch.core import codec
from airflow_dispatch.core.codec import Json
from airflow_dispatch.core.commits import kind_of, weight_of
from airflow_dispatch.ports.store import Entry
from airflow_dispatch.supervisor import story


def listed(standing: Standing) -> dict[str, Json]:
    """A job of the list as a program gets it."""
    state, status = standing.record.state, standing.status
    task = state.key.task
    return {
        "digest": standing.digest,
        "dag_id": task.dag_id,
        "task_id": task.task_id,
        "run_id": task.run_id,
        "map_index": task.map_index,
        "generation": state.key.generation,
        "cluster": state.cluster,
        "stage": status.stage.value,
        "outcome": document.outcome(state),
        "receipt": status.receipt.value,
        "settled": status.settled,
        "unattended": status.unattended,
        "waits": [one.kind.value for one in status.waits],
        "created_at": words.stamp(state.created_at),
        "revision": standing.record.revision,
    }


def listed_for_people(standing: Standing) -> dict[str, str]:
    """A job of the list as a person reads it."""
    state, status = standing.record.state, standing.status
    task = state.key.task
    return {
        "job": words.short(standing.digest),
        "task": words.task(task),
        "run_id": words.clean(task.run_id),
        "gen": str(state.key.generation),
        "cluster": words.clean(state.cluster),
        "stage": status.stage.value,
        "outcome": _outcome(standing),
        "attended": _attended(standing),
        "waits for": ", ".join(one.kind.value for one in status.waits) or "-",
        "created": words.moment(state.created_at),
    }


def _outcome(standing: Standing) -> str:
    known = standing.record.state.outcome
    if known is None:
        return "-"
    return known.state.value if known.cause is None else f"failed: {known.cause.kind.value}"


def _attended(standing: Standing) -> str:
    if standing.status.settled:
        return "-"
    return "NO" if standing.status.unattended else "yes"


def entry(one: Entry) -> dict[str, Json]:
    """A commit as a program gets it, with its payload."""
    commit = one.commit
    kind, body = codec.encode_body(commit.body)
    payload: dict[str, Json] = json.loads(body)
    return {
        "revision": one.revision,
        "at": words.stamp(commit.at),
        "weight": weight_of(commit.body).value,
        "kind": kind,
        "actor": commit.actor,
        "sentence": story.sentence(commit.body),
        "commit_id": commit.id,
        "version": payload["v"],
        "payload": payload["body"],
    }


def entry_for_people(one: Entry) -> dict[str, str]:
    """A commit as a person reads it."""
    commit = one.commit
    return {
        "rev": str(one.revision),
        "time": words.moment(commit.at),
        "weight": weight_of(commit.body).value,
        "kind": kind_of(commit.body),
        "actor": words.clean(commit.actor),
        "what": words.clean(story.sentence(commit.body)),
    }
