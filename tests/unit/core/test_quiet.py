"""Quiet: nothing of a job, nor of its earlier tries, runs or can run any more [no-overlap]."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_dispatch.core import settlement
from airflow_dispatch.core.commits import (
    Body,
    Cancelled,
    Concluded,
    Gone,
    Lost,
    Quieted,
    Retired,
    Settled,
    Sight,
)
from airflow_dispatch.core.record import (
    Done,
    Incarnation,
    Phase,
    Refused,
    Source,
    Verdict,
)
from airflow_dispatch.core.settlement import Predecessor
from airflow_dispatch.core.view import Capabilities
from airflow_dispatch.errors import InvariantBroken
from tests.unit.core.building import (
    CAPABILITIES,
    STARTED,
    SUCCEEDED,
    at,
    begun,
    ended,
    foreign,
    gated,
    launched,
    opened,
    record,
    replied,
    running,
    sighted,
    start,
    stop_job,
    view,
    withdraw,
)

NO_PERMITS = replace(CAPABILITIES, permits=False)
LATE = 1_000.0
"""After the deadline and the bound of every call in these tests, and before any time limit."""


def over_and_done() -> list[Body]:
    """Succeeded, ended, its permit decided: nothing is left."""
    taken_back: list[Body] = [withdraw(3), replied(3, STARTED)]
    return [*opened(Done()), sighted(110, ended()), Concluded(SUCCEEDED), *taken_back]


def unquiet(
    bodies: list[Body],
    *shown: Sight,
    revision: int | None = None,
    capabilities: Capabilities = CAPABILITIES,
    predecessors: tuple[Predecessor, ...] = (),
    generation: int = 1,
) -> settlement.Unquiet:
    """What keeps that record from being quiet."""
    predecessor = generation - 1 or None
    made = record(*bodies, first=begun(generation=generation, predecessor=predecessor))
    seen = view(made, LATE, *shown, revision=revision)
    return settlement.unquiet(made, seen, capabilities, predecessors=predecessors)


def left(found: settlement.Unquiet) -> list[str]:
    """The names of what is left."""
    return [name for name in type(found).__slots__ if getattr(found, name)]


def test_a_job_that_ended_and_was_taken_back_is_quiet() -> None:
    """Outcome, nothing alive, everything accounted for, calls over, permits decided."""
    assert unquiet(over_and_done()).quiet
    assert unquiet(over_and_done(), ended()).quiet


def test_without_an_outcome_nothing_is_quiet() -> None:
    """A stalled supervisor may still launch from it [no-overlap]."""
    assert left(unquiet([])) == ["outcome_missing"]
    assert not unquiet([]).quiet


@pytest.mark.parametrize(
    ("bodies", "shown", "what"),
    [
        (over_and_done(), (gated("o1b"),), ["alive"]),
        (over_and_done(), (foreign(),), ["alive"]),
        (over_and_done(), (running(),), ["alive", "unaccounted"]),
        (over_and_done()[:-1], (), ["permits"]),
        (over_and_done()[:-2], (), ["permits"]),
        ([*launched(2), sighted(9, ended()), Concluded(SUCCEEDED)], (), ["unaccounted"]),
        ([*launched(), Gone("o1", at(9)), Cancelled("x")], (), ["stop_job_missing"]),
        (
            [*launched(), Gone("o1", at(9)), Cancelled("x"), stop_job(2, 2), replied(2, Done())],
            (),
            [],
        ),
        (
            [
                *launched(),
                Gone("o1", at(9)),
                Cancelled("x"),
                stop_job(2, 2),
                replied(2, Refused("no", permanent=True)),
            ],
            (),
            ["stop_job_missing"],
        ),
    ],
)
def test_what_keeps_a_job_from_being_quiet(
    bodies: list[Body], shown: tuple[Sight, ...], what: list[str]
) -> None:
    """Each thing left has a name, for the one who waits."""
    assert left(unquiet(bodies, *shown)) == what


def test_a_start_in_flight_keeps_a_job_from_being_quiet() -> None:
    """Matched or not: until it is over, it may create one more object [nothing-forgotten]."""
    bodies = [*over_and_done()[:-3], start(3, 2, deadline=LATE), Concluded(SUCCEEDED), withdraw(4)]
    assert left(unquiet([*bodies, replied(4, STARTED)])) == ["calls"]


def test_quiet_is_judged_by_a_find_begun_after_the_outcome_and_the_withdrawal() -> None:
    """What a look from before shows proves nothing about what they let through."""
    made = record(*over_and_done())
    assert left(unquiet(over_and_done(), revision=made.revision - 1)) == ["permits"]
    assert "find_too_old" in left(
        unquiet(over_and_done(), revision=made.state.outcome_revision - 1)
    )


def test_a_cluster_without_permits_is_asked_for_no_withdrawal() -> None:
    """It could never answer: the lesser capability is declared, and the job still settles."""
    assert unquiet(over_and_done()[:-2], capabilities=NO_PERMITS).quiet


# --- earlier tries --------------------------------------------------------------------------------


def earlier(generation: int, bodies: list[Body], *shown: Sight) -> Predecessor:
    """An earlier try's record with its view."""
    predecessor = generation - 1 or None
    made = record(*bodies, first=begun(generation=generation, predecessor=predecessor))
    return Predecessor(made, view(made, LATE, *shown), CAPABILITIES)


EMPTY_AND_CANCELLED: list[Body] = [
    Cancelled("cleared"),
    stop_job(1, 1),
    replied(1, Done()),
    stop_job(2, 2),
    replied(2, Done()),
]
SETTLED: list[Body] = [*EMPTY_AND_CANCELLED, Quieted(at(500)), Settled()]


def chain(*predecessors: Predecessor, generation: int) -> bool:
    """Whether the record of that generation may take its earlier tries for quiet."""
    predecessor = generation - 1 or None
    made = record(first=begun(generation=generation, predecessor=predecessor))
    return settlement.quiet_chain(made.state, predecessors)


def test_a_first_try_waits_for_nobody() -> None:
    """No predecessor, nothing to wait for."""
    assert chain(generation=1)


def test_a_predecessor_that_nobody_loaded_is_not_quiet() -> None:
    """A caller that forgets the earlier try must not open the gate [no-overlap]."""
    assert not chain(generation=2)
    assert not chain(earlier(2, EMPTY_AND_CANCELLED), generation=3)


def test_the_chain_ends_at_a_settled_record() -> None:
    """A record settles after its own predecessor is quiet, so what is before it is, too."""
    assert chain(earlier(2, SETTLED), generation=3)
    assert chain(earlier(2, EMPTY_AND_CANCELLED), earlier(1, EMPTY_AND_CANCELLED), generation=3)


def test_an_empty_second_try_does_not_hide_a_running_first() -> None:
    """Cleared twice quickly: the third try still waits for the first [no-overlap]."""
    first = earlier(1, [*opened(Done()), sighted(80, running()), Cancelled("cleared")], running())
    assert not chain(earlier(2, EMPTY_AND_CANCELLED), first, generation=3)
    second = unquiet(EMPTY_AND_CANCELLED, generation=2, predecessors=(first,))
    assert left(second) == ["predecessor"]


def test_another_record_in_the_chain_is_a_defect() -> None:
    """Not the predecessor that the record names: nothing may be concluded from it."""
    with pytest.raises(InvariantBroken, match="predecessor"):
        chain(earlier(1, SETTLED), generation=3)


def test_a_long_chain_is_walked_not_climbed() -> None:
    """As many tries as the limit allows, without a call depth to match."""
    tries = [earlier(1, EMPTY_AND_CANCELLED)]
    tries += [
        Predecessor(
            record(*EMPTY_AND_CANCELLED, first=begun(generation=n, predecessor=n - 1)),
            tries[0].view,
            CAPABILITIES,
        )
        for n in range(2, 1_001)
    ]
    tries.reverse()
    assert chain(*tries, generation=1_001)


# --- foreign objects ------------------------------------------------------------------------------


def undisposed(bodies: list[Body]) -> list[str]:
    """The foreign objects that a person has to look at."""
    return [known.id for known in settlement.undisposed(record(*bodies))]


IDLE = foreign(
    "f1", Phase.ENDED, Incarnation(0, verdict=Verdict(Source.SCHEDULER, None), idle=True)
)


def test_a_foreign_object_waits_for_a_person() -> None:
    """Alive, ended or gone by itself: it was never ours to judge, so somebody looks at it."""
    for later in ([], [sighted(130, IDLE)], [Gone("f1", at(200))]):
        assert undisposed([*over_and_done(), sighted(120, foreign()), *later]) == ["f1"]


def test_a_cancel_disposes_of_a_foreign_object_that_ended() -> None:
    """It was stopped by the mark, with everything else; while it lives it still counts."""
    cancelled: list[Body] = [*launched(), Cancelled("x")]
    assert undisposed([*cancelled, sighted(120, foreign())]) == ["f1"]
    assert undisposed([*cancelled, sighted(120, IDLE)]) == []
    assert undisposed([*cancelled, sighted(120, foreign()), Gone("f1", at(200))]) == []
    assert undisposed([*cancelled, sighted(120, foreign()), Lost("f1", at(200))]) == ["f1"]


def test_our_own_objects_need_no_person() -> None:
    """Duplicates are retired and stopped by rule."""
    bodies = [*launched(2), Retired("o2", "duplicate"), Concluded(SUCCEEDED)]
    assert undisposed(bodies) == []
