"""Between rows and records: what the columns of a record hold, and how rows are read again.

The state in a row is the fold of the commits beside it; the other columns repeat parts of it for
lists. The job description stands once, in the first commit. It may be a megabyte and never changes,
so a bounded number of decoded ones is kept, by the record's digest.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from airflow_dispatch import limits
from airflow_dispatch.core import codec
from airflow_dispatch.core.commits import KINDS, Begun, Commit
from airflow_dispatch.core.identity import JobKey, TaskKey
from airflow_dispatch.core.job import Job
from airflow_dispatch.core.record import Record
from airflow_dispatch.errors import UnreadableRecord
from airflow_dispatch.ports.store import Entry
from airflow_dispatch.stores.sql import tables

KEY_COLUMNS = ("deployment", "dag_id", "run_id", "task_id", "map_index", "generation")
RECORD_COLUMNS = ("digest", "revision", "state")


def changing(record: Record) -> dict[str, Any]:
    """The columns that each commit writes."""
    state = record.state
    return {
        "revision": record.revision,
        "state": codec.encode_state(state),
        "settled": state.settled_revision > 0,
        "outcome": state.outcome.state.value if state.outcome else None,
        "updated_at": tables.database_now(),
    }


def constant(record: Record) -> dict[str, Any]:
    """The columns that the first commit writes, once."""
    key = record.state.key
    task = key.task
    return {
        "digest": key.digest,
        "task_digest": task.digest,
        "deployment": task.deployment,
        "dag_id": task.dag_id,
        "run_id": task.run_id,
        "task_id": task.task_id,
        "map_index": task.map_index,
        "generation": key.generation,
        "cluster": record.state.cluster,
        "created_at": tables.database_now(),
    }


def of_commit(key: JobKey, revision: int, commit: Commit) -> dict[str, Any]:
    """The row of one commit."""
    kind, body = codec.encode_body(commit.body)
    return {
        "job": key.digest,
        "revision": revision,
        "id": commit.id,
        "kind": kind,
        "actor": commit.actor,
        "at": commit.at,
        "body": body,
    }


def key(row: sa.Row[Any]) -> JobKey:
    """The key that a row of `dispatch_job` names."""
    task = TaskKey(row.deployment, row.dag_id, row.run_id, row.task_id, row.map_index)
    return JobKey(task, row.generation)


def entry(row: sa.Row[Any]) -> Entry:
    """A row of `dispatch_commit` as the history shows it."""
    body = codec.decode_body(row.kind, row.body)
    return Entry(row.revision, Commit(row.id, row.at, row.actor, body))


def record(row: sa.Row[Any], job: Job) -> Record:
    """The record of a row of `dispatch_job`, and its job."""
    with named(row):
        return Record(row.revision, codec.decode_state(row.state), job)


@contextmanager
def named(row: sa.Row[Any]) -> Iterator[None]:
    """Say which record it is that cannot be read."""
    try:
        yield
    except UnreadableRecord as error:
        raise UnreadableRecord(f"record {row.digest[:12]}: {error}") from error


KIND_OF_FIRST, _ = KINDS[Begun]


class Jobs:
    """Decoded job descriptions by the digest of their record, the least used dropped first."""

    def __init__(self, chars_max: int = limits.JOBS_CACHED_CHARS_MAX) -> None:
        self._chars_max = chars_max
        self._chars = 0
        self._kept: OrderedDict[str, tuple[Job, int]] = OrderedDict()

    def get(self, digest: str) -> Job | None:
        """The job of that record, if it is kept."""
        found = self._kept.get(digest)
        if found is None:
            return None
        self._kept.move_to_end(digest)
        return found[0]

    def decoded(self, digest: str, first_body: str) -> Job:
        """The job in the body of a record's first commit; kept from now on."""
        found = self.get(digest)
        if found is not None:
            return found
        body = codec.decode_body(KIND_OF_FIRST, first_body)
        if not isinstance(body, Begun):
            raise UnreadableRecord("it does not begin with its job")
        self._kept[digest] = body.job, len(first_body)
        self._chars += len(first_body)
        while self._chars > self._chars_max:
            _, (_, chars) = self._kept.popitem(last=False)
            self._chars -= chars
        return body.job
