"""How people name a job: by the start of its digest, or by DAG, task and run.

    airflow dispatch show 3fa9c1d20b7e
    airflow dispatch show digits train manual__2030-01-01T00:00:00 --map-index 3 --generation 1

Without `--generation` the newest one is meant. Too short a start, or one that several jobs share,
is never guessed at: the answer lists the candidates.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_dispatch.cli import words
from airflow_dispatch.core.record import Record
from airflow_dispatch.errors import DispatchError, UnknownRecord

PREFIX_CHARS_MIN = 6
CANDIDATES_MAX = 10

_HEX = re.compile(r"[0-9a-f]{1,64}", re.ASCII | re.IGNORECASE)


class BadKey(DispatchError, ValueError):
    """The words name no job in a way that a command takes."""


class AmbiguousKey(DispatchError, LookupError):
    """Several records begin with the digits given."""


@dataclass(frozen=True, slots=True)
class ByDigest:
    """The record whose digest begins so."""

    prefix: str


@dataclass(frozen=True, slots=True)
class ByTask:
    """A record of this task; the newest where no generation is given."""

    dag_id: str
    task_id: str
    run_id: str
    map_index: int = -1
    generation: int | None = None


Reference = ByDigest | ByTask


def parse(
    given: Sequence[str], *, map_index: int | None = None, generation: int | None = None
) -> Reference:
    """The reference that one or three words make; raises `BadKey` saying what is expected."""
    match given:
        case [prefix]:
            if map_index is not None or generation is not None:
                raise BadKey(
                    "--map-index and --generation go with `DAG TASK RUN`: a digest names one job"
                )
            return ByDigest(_prefix(prefix))
        case [dag_id, task_id, run_id]:
            return ByTask(
                dag_id, task_id, run_id, -1 if map_index is None else map_index, generation
            )
        case _:
            raise BadKey(
                f"{len(given)} words name no job; give the start of its digest"
                f" ({PREFIX_CHARS_MIN} digits at least), or `DAG TASK RUN`"
            )


def _prefix(text: str) -> str:
    if not _HEX.fullmatch(text):
        raise BadKey(
            f"{words.clean(text)!r} is no start of a digest (digits 0-9 and a-f);"
            " `airflow dispatch list` shows them, or name the job as `DAG TASK RUN`"
        )
    if len(text) < PREFIX_CHARS_MIN:
        raise BadKey(
            f"{text!r} is too short to mean one job; give {PREFIX_CHARS_MIN} digits at least"
        )
    return text.lower()


def only(reference: ByDigest, found: Sequence[Record]) -> Record:
    """The one record that was found; raises `UnknownRecord` or `AmbiguousKey`."""
    if not found:
        raise UnknownRecord(
            f"no job has a digest that begins with {reference.prefix};"
            " `airflow dispatch list` shows those there are"
        )
    if len(found) == 1:
        return found[0]
    shown = "; ".join(words.job(record.state.key) for record in found[:CANDIDATES_MAX])
    more = " and more" if len(found) > CANDIDATES_MAX else ""
    raise AmbiguousKey(
        f"several jobs have a digest that begins with {reference.prefix}: {shown}{more}."
        " Give more digits"
    )


def missing(reference: ByTask, *, mapped: Sequence[int] = ()) -> UnknownRecord:
    """That the task has no such record, in words; `mapped` are its map indexes that have jobs."""
    if mapped:
        indexes = ", ".join(str(index) for index in mapped[:CANDIDATES_MAX])
        more = " and more" if len(mapped) > CANDIDATES_MAX else ""
        return UnknownRecord(
            f"task {words.clean(reference.task_id)!r} is mapped, and has jobs at these indexes:"
            f" {indexes}{more}. Add --map-index {mapped[0]}, or another of them"
        )
    index = f", map index {reference.map_index}" if reference.map_index >= 0 else ""
    which = "no job" if reference.generation is None else f"no generation {reference.generation}"
    return UnknownRecord(
        f"there is {which} of DAG {words.clean(reference.dag_id)!r}, task"
        f" {words.clean(reference.task_id)!r}, run {words.clean(reference.run_id)!r}{index};"
        " either nothing was launched for it, or one of the names is another"
        " (`airflow dispatch list --dag-id ...` shows those there are)"
    )
