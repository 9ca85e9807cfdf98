"""How people name a job: what is taken, what is refused, and what is never guessed at."""

from __future__ import annotations

import pytest

from airflow_dispatch.cli import keys
from airflow_dispatch.cli.keys import AmbiguousKey, BadKey, ByDigest, ByTask
from airflow_dispatch.errors import UnknownRecord
from tests.unit.core import building


def test_one_word_is_the_start_of_a_digest() -> None:
    """In any case, and up to the whole of it."""
    assert keys.parse(["3FA9c1"]) == ByDigest("3fa9c1")
    assert keys.parse(["a" * 64]) == ByDigest("a" * 64)


def test_three_words_are_dag_task_and_run() -> None:
    """With map index and generation where they are given, the newest one otherwise."""
    assert keys.parse(["dag", "task", "run"]) == ByTask("dag", "task", "run", -1, None)
    assert keys.parse(["dag", "task", "run"], map_index=3, generation=2) == ByTask(
        "dag", "task", "run", 3, 2
    )


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (["3fa9c"], {}, "too short"),
        (["digits"], {}, "no start of a digest"),
        (["a" * 65], {}, "no start of a digest"),
        (["3fa9\n1"], {}, "'3fa9\\\\n1'"),
        (["３fa9c1"], {}, "no start of a digest"),
        ([], {}, "0 words"),
        (["dag", "task"], {}, "2 words"),
        (["a", "b", "c", "d"], {}, "4 words"),
        (["3fa9c1"], {"generation": 1}, "a digest names one job"),
        (["3fa9c1"], {"map_index": 0}, "a digest names one job"),
    ],
)
def test_other_words_are_refused(given: list[str], options: dict[str, int], said: str) -> None:
    """With what would have been right."""
    with pytest.raises(BadKey) as refused:
        keys.parse(given, **options)
    assert said in str(refused.value)


def test_a_start_that_several_jobs_share_lists_them() -> None:
    """Every candidate is named, up to ten, so that the next try can be right."""
    records = [
        building.record(first=building.begun(generation=n, predecessor=n - 1 or None))
        for n in range(1, 13)
    ]
    with pytest.raises(AmbiguousKey) as several:
        keys.only(ByDigest("abcdef"), records[:2])
    for record in records[:2]:
        assert record.state.key.digest[:12] in str(several.value)
    with pytest.raises(AmbiguousKey) as many:
        keys.only(ByDigest("abcdef"), records)
    assert str(many.value).count("generation") == 10
    assert "and more" in str(many.value)
    assert keys.only(ByDigest("abcdef"), records[:1]) is records[0]


def test_what_is_not_there_is_said_to_be_missing() -> None:
    """By whichever name it was asked for."""
    with pytest.raises(UnknownRecord, match="begins with abcdef"):
        keys.only(ByDigest("abcdef"), [])
    assert "no generation 4" in str(keys.missing(ByTask("dag", "task", "run", 7, 4)))
    assert "map index 7" in str(keys.missing(ByTask("dag", "task", "run", 7, 4)))
    assert "no job of DAG 'dag'" in str(keys.missing(ByTask("dag", "task", "run")))
    mapped = str(keys.missing(ByTask("dag", "task", "run"), mapped=[2, 5]))
    assert "'task' is mapped, and has jobs at these indexes: 2, 5. Add --map-index 2" in mapped
    assert "9 and more. Add --map-index 0" in str(
        keys.missing(ByTask("dag", "task", "run"), mapped=range(11))
    )
