"""News: what a Find shows that the record does not hold yet, and nothing else."""

from __future__ import annotations

import pytest

from airflow_dispatch import limits
from airflow_dispatch.core import sighting
from airflow_dispatch.core.commits import Body, Concluded, Gone, Lost, Quieted, Sight
from airflow_dispatch.core.record import Created, Done, Phase
from tests.unit.core.building import (
    SUCCEEDED,
    at,
    chosen,
    ended,
    foreign,
    gated,
    launched,
    mark,
    opened,
    record,
    replied,
    running,
    sight,
    sighted,
    view,
)


def news(bodies: list[Body], *shown: Sight, began: float = 200) -> list[str]:
    """The ids of the objects of which there is something to file."""
    made = record(*bodies)
    found = sighting.news(made, view(made, began, *shown))
    return [] if found is None else [one.id for one in found.objects]


@pytest.mark.parametrize(
    ("bodies", "shown", "expected"),
    [
        (launched()[:2], [gated()], ["o1"]),
        (launched(), [gated()], []),
        (launched(), [sight("o1", Phase.QUEUED)], ["o1"]),
        (launched(), [foreign()], ["f1"]),
        (launched(), [], []),
        (chosen(), [gated()], []),
        (chosen(), [running(), gated("o2")], ["o1", "o2"]),
        ([*opened(Done()), sighted(80, running())], [running()], []),
        ([*opened(Done()), sighted(80, running())], [ended()], ["o1"]),
        ([*launched(), Gone("o1", at(90))], [gated()], ["o1"]),
        ([*launched(), Lost("o1", at(90))], [gated()], ["o1"]),
    ],
)
def test_only_what_is_new_is_filed(
    bodies: list[Body], shown: list[Sight], expected: list[str]
) -> None:
    """A quiet job costs no commit; what was judged away and is back is always new."""
    assert news(bodies, *shown) == expected


def test_anything_alive_after_the_quiet_is_new() -> None:
    """Though it looks as it did before: the quiet was judged from a look that showed it idle."""
    bodies = [*opened(Done()), sighted(80, running()), Concluded(SUCCEEDED), Quieted(at(150))]
    assert news(bodies, running(), began=200) == ["o1"]
    assert news(bodies, running(), began=100) == []


def test_another_records_objects_are_not_filed() -> None:
    """A shared Find shows those of other tries and of other tasks."""
    assert news(launched(), gated("x", of=mark(1, generation=2))) == []


def test_a_record_follows_so_many_objects_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known is followed on; of what is not, there is room for some, or for none."""
    monkeypatch.setattr(limits, "OBJECTS_MAX", 3)
    two: list[Body] = [*launched(2), sighted(5, gated("o1"), gated("o2"))]
    crowd = [foreign(f"f{number}") for number in range(9)]
    assert news(two, running(), gated("o2"), *crowd) == ["f0", "o1"]
    four: list[Body] = [*launched(2), replied(1, Created("o1b")), replied(2, Created("o2b"))]
    assert news(four, running(), *crowd) == ["o1"]
