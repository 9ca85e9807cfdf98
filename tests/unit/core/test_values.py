"""The closed unions and the small values between the modules."""

from __future__ import annotations

from datetime import timedelta
from typing import get_args

from airflow_dispatch.core import commits
from airflow_dispatch.core.commits import KINDS, Weight, kind_of, weight_of
from airflow_dispatch.core.record import Done, Incarnation, Phase, Source, Verdict
from airflow_dispatch.core.steps import Policy, Wait, Waiting, WaitKind
from tests.unit.core.building import (
    EXIT_1,
    at,
    ended,
    foreign,
    gated,
    key,
    mark,
    record,
    replied,
    running,
    sight,
    view,
)


def test_every_body_has_a_kind_and_the_weight_of_its_union() -> None:
    """Decisions are made again, acts name somebody, evidence is merged; nothing is two of them."""
    assert set(KINDS) == set(get_args(commits.Body))
    expected = dict.fromkeys(get_args(commits.Decision), Weight.DECISION)
    expected |= {commits.Act: Weight.ACT}
    expected |= dict.fromkeys(get_args(commits.Evidence), Weight.EVIDENCE)
    assert {body: weight for body, (_, weight) in KINDS.items()} == expected
    assert len({kind for kind, _ in KINDS.values()}) == len(KINDS)


def test_kind_and_weight_are_those_of_the_body() -> None:
    """As the history and the stores ask for them."""
    assert kind_of(commits.Settled()) == "settled"
    assert weight_of(commits.Cancelled("x")) is Weight.ACT
    assert weight_of(replied(1, Done())) is Weight.EVIDENCE


def test_an_object_moves_through_its_phases_in_one_order() -> None:
    """Of two sightings of one moment the later phase is kept."""
    assert [phase.order for phase in Phase] == [0, 1, 2, 3, 4]
    assert max(Phase, key=lambda phase: phase.order) is Phase.ENDED


def test_verdicts_have_one_order() -> None:
    """The exit record first; among equals failure; then the text, so that order is total."""
    ordered = [
        Verdict(Source.EXIT_RECORD, EXIT_1),
        Verdict(Source.EXIT_RECORD, EXIT_1, at(1)),
        Verdict(Source.EXIT_RECORD, None),
        Verdict(Source.ACCOUNTING, EXIT_1),
        Verdict(Source.SCHEDULER, EXIT_1),
        Verdict(Source.SCHEDULER, None),
    ]
    mixed = [ordered[number] for number in (3, 0, 5, 2, 4, 1)]
    assert sorted(mixed, key=lambda verdict: verdict.key) == ordered


def test_idle_takes_every_start_and_at_least_one() -> None:
    """An object without any start shown counts as alive: nothing says that it is not."""
    assert not gated().idle
    assert not running().idle
    assert ended().idle
    two = sight("o1", Phase.ENDED, Incarnation(0, idle=True), Incarnation(1))
    assert not two.idle
    assert running().started
    assert not gated().started


def test_a_view_gives_a_records_objects_in_order_of_their_marks() -> None:
    """Foreign ones too, other generations' not; by id where marks agree."""
    sights = (
        gated("o2"),
        gated("o1b"),
        foreign("a"),
        gated("o1"),
        gated("x", of=mark(1, generation=2)),
    )
    seen = view(record(), 5, *sights)
    assert [one.id for one in seen.of(key(1))] == ["a", "o1", "o1b", "o2"]
    assert [one.id for one in seen.of(key(2))] == ["x"]
    assert seen.shown("x") is not None
    assert seen.shown("y") is None
    assert seen.began == at(5)


def test_a_wait_ends_with_the_first_of_its_moments() -> None:
    """Or at no known time."""
    one, other = Waiting(WaitKind.CALL, until=at(9)), Waiting(WaitKind.LOST, until=at(5))
    assert Wait((one, Waiting(WaitKind.RUNNING), other)).until == at(5)
    assert Wait((Waiting(WaitKind.RUNNING),)).until is None
    assert Policy().call_time == timedelta(seconds=30)
