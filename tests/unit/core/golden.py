"""A history with every kind of commit, and the golden files that hold how version 1 writes it.

`python -m tests.unit.core.golden` writes the files of the present version. Those of a version that
is out are never written again: `test_codec` reads them for ever.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from airflow_dispatch.core import codec, folding
from airflow_dispatch.core.causes import Cause, CauseKind
from airflow_dispatch.core.commits import (
    KINDS,
    Adopted,
    Authorized,
    Begun,
    Body,
    Cancelled,
    Chosen,
    Commit,
    Concluded,
    Gone,
    Lost,
    NeverLanded,
    OpenedOutside,
    Quieted,
    Retired,
    Settled,
    Sight,
    Sighted,
    kind_of,
)
from airflow_dispatch.core.identity import JobKey, Mark, TaskKey
from airflow_dispatch.core.job import Job, Placement, Resources, Unmatched
from airflow_dispatch.core.record import (
    Binding,
    Created,
    Decided,
    Done,
    Incarnation,
    NotSent,
    OnClear,
    Outcome,
    OutcomeState,
    Phase,
    Record,
    Refused,
    Source,
    Unclear,
    Verdict,
)
from tests.unit.core.building import (
    at,
    opening,
    replied,
    start,
    stop,
    stop_job,
    withdraw,
)

FOLDER = Path(__file__).with_name("golden")
TASK = TaskKey("0123456789abcdef", "däg", "scheduled__2026-03-01T00:00:00+00:00", "train 🚂", 3)
JOB = Job(
    cluster="local",
    time_limit_seconds=86_400,
    script="#!/bin/sh\nexec python train.py\n",
    workdir="/home/ada",
    env=(("EPOCHS", "10"), ("NAME", 'quo"ted')),
    resources=Resources(2, 4, 8, 1 << 34, 2, "a100"),
    placement=Placement("physics", "gpu", "high", "main"),
    image="registry/train:1",
    mounts=("data",),
    start_within_seconds=3_600,
    grace_seconds=60,
    unmatched=Unmatched.MANUAL,
    options=(("--comment", "x"),),
)
BINDING = Binding(41, "01890a5d-ac96-774b-bcce-b302099a8057", 2, 4, 1, OnClear.REATTACH)


def _mark(attempt: int, tag: str = "") -> Mark:
    return Mark(TASK.deployment, TASK.digest, 2, 1, attempt, tag or f"tag-1.{attempt}")


def _sights() -> tuple[Sight, ...]:
    running = Incarnation(0, started=True, started_at=at(70), host="n1")
    second = Incarnation(1, verdict=Verdict(Source.ACCOUNTING, None), idle=True)
    return (
        Sight("o1", _mark(1), Phase.RUNNING, (running, second), "job 17 on n1"),
        Sight("o2", _mark(2), Phase.GATED, unreadable=True),
        Sight("f1", _mark(1, "a tag that nobody committed"), Phase.STOPPING),
    )


OUTCOME = Outcome(
    OutcomeState.FAILED, cause=Cause(CauseKind.SIGNAL, 9, "killed by the kernel"), object="o1"
)
BODIES: tuple[Body, ...] = (
    Begun(JobKey(TASK, 2), JOB, BINDING, "cluster-1", predecessor=1),
    Authorized(1),
    start(1),
    replied(1, Created("o1")),
    start(2, 2),
    replied(2, Unclear("the connection was reset")),
    start(3, 3),
    NeverLanded(1, 3),
    start(4, 4),
    replied(4, Refused("the queue is full", permanent=False)),
    start(5, 5),
    replied(5, Created("o5", gated=False)),
    Sighted(at(60), _sights()[1:]),
    Chosen(1, "o1"),
    Retired("o2", "duplicate of o1"),
    stop(6, "o2", "duplicate of o1"),
    Gone("o2", at(63)),
    OpenedOutside("o1"),
    opening(7),
    replied(7, NotSent("the job was held")),
    opening(8),
    opening(9, deadline=120),
    replied(9, Done()),
    Lost("o1", at(66)),
    Sighted(at(71), _sights()),
    withdraw(10),
    replied(10, Decided(((0, True),))),
    Adopted(replace(BINDING, try_number=3)),
    Concluded(OUTCOME),
    Cancelled("too late"),
    stop_job(11, 1),
    Quieted(at(300)),
    Settled(),
)


def commits() -> list[Commit]:
    """The history, with ids, times and actors."""
    return [
        Commit(f"{number:032x}", at(number), "person:ada" if number % 2 else "supervisor:a", body)
        for number, body in enumerate(BODIES, start=1)
    ]


def replayed(history: list[Commit]) -> Record:
    """The record that a history makes."""
    record = folding.begin(history[0])
    for commit in history[1:]:
        record = folding.apply(record, commit)
    return record


def written() -> dict[str, str]:
    """The golden files of the present version by name: one a kind, the history, state and job."""
    first: dict[str, Body] = {}
    for body in BODIES:
        first.setdefault(kind_of(body), body)
    assert set(first) == {kind for kind, _ in KINDS.values()}
    texts = {f"{kind}.json": codec.encode_body(body)[1] for kind, body in first.items()}
    history = [
        {
            "id": commit.id,
            "at": commit.at.isoformat(),
            "actor": commit.actor,
            "kind": kind_of(commit.body),
            "body": json.loads(codec.encode_body(commit.body)[1]),
        }
        for commit in commits()
    ]
    texts["history.json"] = json.dumps(history)
    texts["state.json"] = codec.encode_state(replayed(commits()).state)
    texts["job.json"] = codec.encode_job(JOB)
    return {name: json.dumps(json.loads(text), indent=1) + "\n" for name, text in texts.items()}


def main() -> None:
    """Write the golden files of the present version."""
    folder = FOLDER / f"v{codec.VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in written().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
