"""Who is who: task keys, job keys, and the mark that every object of a job carries.

A name or an id alone is never identity: schedulers reuse ids and people reuse names. What is ours
bears a full `Mark`, and the mark matches an attempt that the record knows, tag included.

Digests are sha256 over an unambiguous encoding of the parts, so that hostile names (empty, huge,
with separators, not ASCII) can neither collide nor break a file name, a label or a database key.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

ObjectId = str
"""An adapter's canonical text for one object; made so that a reused scheduler id is another
ObjectId."""


def digest_of(*parts: str | int) -> str:
    """The sha256 (64 hex digits) of the parts; different tuples of parts give different text."""
    text = json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
    # Not as ASCII: JSON would write the two halves of a surrogate pair like the one sign.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True, order=True)
class TaskKey:
    """One task of one DAG run, whatever the try: the logical key that all generations share."""

    deployment: str
    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    @property
    def digest(self) -> str:
        """Names the task in run folders and marks (64 hex digits)."""
        return digest_of(self.deployment, self.dag_id, self.run_id, self.task_id, self.map_index)

    def __str__(self) -> str:
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}.{self.task_id}{mapped} ({self.run_id})"


@dataclass(frozen=True, slots=True, order=True)
class JobKey:
    """One record: a task and its generation (1, 2, ...).

    A clear, or a retry after a failure, makes the next generation.
    """

    task: TaskKey
    generation: int

    @property
    def digest(self) -> str:
        """The primary key of the record (64 hex digits)."""
        task = self.task
        parts = (task.deployment, task.dag_id, task.run_id, task.task_id, task.map_index)
        return digest_of(*parts, self.generation)

    def __str__(self) -> str:
        return f"{self.task} generation {self.generation}"


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """What an object carries so that any reader can match it to an attempt of a record."""

    deployment: str
    task_digest: str
    generation: int
    submission: int
    attempt: int
    tag: str
    """Random, made for one start call and committed before it; baked into the object's wrapper."""

    def belongs_to(self, key: JobKey) -> bool:
        """Whether the object says that it is of this record, which may not know its attempt."""
        return (self.deployment, self.task_digest, self.generation) == (
            key.task.deployment,
            key.task.digest,
            key.generation,
        )
