"""Records and commits that the store suite is written with, and names that stores must survive.

Everything is made by the code that makes real records; keys are random, so that tests can share one
store. Nothing here knows which store is tested.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Protocol

from airflow_dispatch.core.commits import (
    Adopted,
    Begun,
    Body,
    Cancelled,
    Commit,
    Quieted,
    Settled,
)
from airflow_dispatch.core.identity import JobKey, TaskKey
from airflow_dispatch.core.job import Job
from airflow_dispatch.core.record import Binding, Record
from airflow_dispatch.ports.store import (
    Store,
    Stored,
)

PassTime = Callable[[float], Awaitable[None]]

WRITERS = 64
MOMENT = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))
JOB = Job(cluster="anywhere", time_limit_seconds=60, command=("true",))

HOSTILE = (
    "plain",
    "",
    " ",
    "quotes ' \" ` ''",
    "'; DROP TABLE dispatch_job; --",
    "%s %(x)s {} $1 :name ?",
    "per%cent_under_score",
    "back\\slash \\u0041 \\x00",
    "tab\tnew\nline\rbell\x07escape\x1b\x7f",
    "ünïcödé 日本語 עברית",
    "four bytes 😀 𝔘 🏳️‍🌈",
    "combining e\u0301 against é",
    "right-to-left \u202e mark",
    "line\u2028separator\ufeff",
    "😀" * 250,
)


class LoseReply(Protocol):
    """Makes the next write lose its reply."""

    def __call__(self, *, landed: bool) -> None:
        """After it landed, or before it could."""


def commit_of(body: Body, *, actor: str = "supervisor:suite", at: datetime = MOMENT) -> Commit:
    """A commit with an id of its own."""
    return Commit(uuid.uuid4().hex, at, actor, body)


def begun(key: JobKey, job: Job = JOB) -> Commit:
    """A first commit for the key."""
    return commit_of(Begun(key, job, Binding(7, "ti", 1, 0), "fingerprint"))


def adopted(record: Record, *, step: int = 1) -> Commit:
    """A commit that may follow any record, and counts: it adds one to the clear number."""
    binding = record.state.binding
    return commit_of(Adopted(replace(binding, clear_number=binding.clear_number + step)))


async def new_key(store: Store, *, task_id: str = "train", generation: int = 1) -> JobKey:
    """A key that no other test uses."""
    task = TaskKey(await store.deployment(), "dag", uuid.uuid4().hex, task_id)
    return JobKey(task, generation)


async def made(store: Store, key: JobKey | None = None, job: Job = JOB) -> Record:
    """A new record."""
    found = await store.create(begun(key or await new_key(store), job))
    assert isinstance(found, Stored)
    return found.record


async def committed(store: Store, base: Record, *bodies: Body) -> Record:
    """The record with the bodies committed one after the other."""
    for body in bodies:
        found = await store.commit(base, commit_of(body))
        assert isinstance(found, Stored)
        base = found.record
    return base


SETTLED = (Cancelled("enough"), Quieted(MOMENT), Settled())
