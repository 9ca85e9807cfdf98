"""Identity: hostile names neither collide nor break a file name, a label or a database key."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest

from airflow_dispatch.core.identity import JobKey, TaskKey, digest_of
from tests.unit.core import building

HOSTILE = [
    "",
    " ",
    "a",
    "A",
    "a/b",
    "../../etc/passwd",
    'a"b',
    "a','b",
    "a\\u0041",
    "aA",
    "a,b",
    '","',
    "]",
    "\0",
    "\n",
    "a\u0301",  # a letter and its accent apart ...
    "\u00e1",  # ... and as one sign
    "\U0001f600",  # one sign beyond the first plane ...
    "\ud83d\ude00",  # ... and the two halves that some encodings make of it
    "\ud83d",
    "[1]",
    "-1",
    "null",
    "x" * 100_000,
]
HEX64 = re.compile(r"[0-9a-f]{64}")


def test_digests_of_hostile_names_differ_and_are_plain() -> None:
    """Every pair of hostile names has a digest of its own, safe wherever a name must go."""
    tuples = [*itertools.product(HOSTILE, HOSTILE), *((name,) for name in HOSTILE)]
    digests = [digest_of(*parts) for parts in tuples]
    assert len(set(digests)) == len(tuples)
    assert all(HEX64.fullmatch(digest) for digest in digests)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "b"), ("ab",)),
        (("a", "b"), ('a","b',)),
        ((1,), ("1",)),
        ((), ("",)),
        ((-1, 1), (-11,)),
    ],
)
def test_the_borders_and_kinds_of_parts_count(
    one: tuple[str | int, ...], other: tuple[str | int, ...]
) -> None:
    """Parts that look alike when they are written side by side have other digests."""
    assert digest_of(*one) != digest_of(*other)


def test_a_digest_never_changes() -> None:
    """Digests are in databases and run folders: these values are for ever."""
    assert building.TASK.digest == TASK_DIGEST
    assert building.KEY.digest == KEY_DIGEST


TASK_DIGEST = "d94b208186f4f9c42d0f13579ea5d498013621185ba36306924b5336f39ed6e2"
KEY_DIGEST = "7f671f11f04f463a361f9679c08b28a5fbace9e54a1aec84999602cc5b966600"


def test_every_part_of_a_key_matters() -> None:
    """Two tasks that differ in one part only are two tasks, and so are two generations."""
    task = building.TASK
    others = [
        replace(task, deployment="other"),
        replace(task, dag_id="other"),
        replace(task, run_id="other"),
        replace(task, task_id="other"),
        replace(task, map_index=0),
        replace(task, dag_id=task.task_id, task_id=task.dag_id),
    ]
    keys = [JobKey(other, 1) for other in [task, *others]] + [JobKey(task, 2)]
    assert len({key.task.digest for key in keys}) == len(others) + 1
    assert len({key.digest for key in keys}) == len(keys)
    assert {key.digest for key in keys}.isdisjoint({key.task.digest for key in keys})


@pytest.mark.parametrize(
    "change", [{"deployment": "copy"}, {"task_digest": "0" * 64}, {"generation": 2}]
)
def test_a_mark_belongs_to_one_record_only(change: dict[str, str]) -> None:
    """Another deployment, task or generation in the mark makes it another record's object."""
    mark = building.mark()
    assert mark.belongs_to(building.KEY)
    assert not replace(mark, **change).belongs_to(building.KEY)  # type: ignore[arg-type]  # by name


def test_a_mark_of_an_unknown_attempt_still_belongs_to_the_record() -> None:
    """Belonging is what the object says of itself; knowing its attempt is the record's part."""
    assert building.mark(9, submission=4, tag="whatever").belongs_to(building.KEY)


def test_people_read_names_not_digests() -> None:
    """A key is shown by the words of Airflow, the map index only where there is one."""
    task = TaskKey("d", "dag", "run", "task")
    assert str(JobKey(task, 3)) == "dag.task (run) generation 3"
    assert str(replace(task, map_index=0)) == "dag.task[0] (run)"
