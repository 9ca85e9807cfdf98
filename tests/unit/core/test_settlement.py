"""The predicates that gates and settlement rest on: each asks for positive evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_dispatch.core import settlement
from airflow_dispatch.core.commits import (
    Body,
    Gone,
    Lost,
    NeverLanded,
    OpenedOutside,
    Sight,
)
from airflow_dispatch.core.record import (
    Done,
    Incarnation,
    NotSent,
    ObjectState,
    Phase,
    Record,
    Refused,
    Reply,
    Source,
    Unclear,
    Verdict,
)
from airflow_dispatch.core.view import CallKind, Capabilities
from tests.unit.core import building
from tests.unit.core.building import (
    CAPABILITIES,
    EXIT_1,
    MANUAL_JOB,
    STARTED,
    WON,
    at,
    begun,
    chosen,
    ended,
    foreign,
    gated,
    launched,
    opened,
    record,
    replied,
    running,
    sight,
    sighted,
    stop_job,
    view,
    withdraw,
)

NO_PERMITS = replace(CAPABILITIES, permits=False)
NEVER_FINAL = replace(CAPABILITIES, final_when_answered=frozenset())
LATE = 1_000.0
"""After the deadline and the bound of every call in these tests, and before any time limit."""


def known(made: Record, wanted: str = "o1") -> ObjectState:
    """The object as the record knows it."""
    found = made.state.object(wanted)
    assert found is not None
    return found


# --- calls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "capabilities", "began", "over"),
    [
        (None, CAPABILITIES, 35, False),
        (None, CAPABILITIES, 35.001, True),
        (Unclear("timeout"), CAPABILITIES, 35, False),
        (Unclear("timeout"), CAPABILITIES, 36, True),
        (NotSent("outcome"), NEVER_FINAL, 1, True),
        (Refused("no", permanent=True), CAPABILITIES, 1, True),
        (Refused("no", permanent=True), NEVER_FINAL, 1, False),
        (Refused("no", permanent=True), NEVER_FINAL, 36, True),
    ],
)
def test_a_call_is_over_when_it_cannot_land(
    reply: Reply | None, capabilities: Capabilities, began: float, over: bool
) -> None:
    """Not sent, clearly answered where that is final, or its deadline and bound have passed."""
    made = record(*launched()[:2], *([replied(1, reply)] if reply else []))
    call = made.state.call(1)
    assert call is not None
    assert settlement.over(call, view(made, began), capabilities) is over


def test_an_answer_that_came_after_the_look_began_proves_nothing_about_it() -> None:
    """What landed between the look and the answer is not in the view [evidence-only]."""
    made = record(*launched())
    call = made.state.call(1)
    assert call is not None
    assert settlement.over(call, view(made, 1), CAPABILITIES)
    assert not settlement.over(call, view(made, 1, revision=made.revision - 1), CAPABILITIES)
    assert settlement.over(call, view(made, 36, revision=made.revision - 1), CAPABILITIES)


def test_stops_and_withdraws_are_not_waited_for_as_calls() -> None:
    """Only starts and opens are pending: of the others it counts what they bring about."""
    made = record(*opened(), building.stop(3, "o1"), stop_job(4, 1), withdraw(5))
    pending = settlement.pending(made.state, view(made, 1), CAPABILITIES)
    assert [call.number for call in pending] == [2]
    kinds = [settlement.kind_of_call(call) for call in made.state.calls]
    assert kinds == [
        CallKind.START,
        CallKind.OPEN,
        CallKind.STOP,
        CallKind.STOP_JOB,
        CallKind.WITHDRAW,
    ]


# --- attempts -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bodies", "unmatched"),
    [
        ([], True),
        ([replied(1, Unclear("timeout"))], True),
        ([replied(1, Refused("no", permanent=False))], False),
        ([replied(1, NotSent("drained"))], False),
        ([sighted(5, gated())], False),
        ([sighted(5, gated()), Gone("o1", at(9))], False),
        ([NeverLanded(1, 1)], False),
        ([sighted(5, foreign())], True),
    ],
)
def test_an_attempt_is_unmatched_without_reply_and_object(
    bodies: list[Body], unmatched: bool
) -> None:
    """A foreign object matches nothing, whatever numbers it bears."""
    made = record(*launched()[:2], *bodies)
    (submission,) = made.state.submissions
    assert settlement.unmatched(made.state, submission, submission.attempts[0]) is unmatched
    assert bool(settlement.open_attempts(made)) is unmatched


@pytest.mark.parametrize(
    ("capabilities", "shown", "began", "revision", "allowed"),
    [
        (CAPABILITIES, (), 36, None, True),
        (CAPABILITIES, (), 35, None, False),
        (CAPABILITIES, (gated(),), 36, None, False),
        (CAPABILITIES, (foreign(),), 36, None, True),
        (CAPABILITIES, (), 36, 2, False),
        (replace(CAPABILITIES, start_bounded=False), (), 36, None, False),
    ],
)
def test_absence_closes_an_attempt_only_when_its_start_is_over(
    capabilities: Capabilities,
    shown: tuple[Sight, ...],
    began: float,
    revision: int | None,
    allowed: bool,
) -> None:
    """Where starts are bounded, by a Find begun after that and after the load of the record."""
    made = record(*launched()[:2])
    (attempt,) = made.state.submissions[0].attempts
    seen = view(made, began, *shown, revision=revision)
    assert settlement.may_count_as_never_landed(made, attempt, seen, capabilities) is allowed


def test_under_manual_a_person_closes_an_attempt() -> None:
    """However long ago its start was over."""
    made = record(*launched()[:2], first=begun(job=MANUAL_JOB))
    (attempt,) = made.state.submissions[0].attempts
    seen = view(made, LATE)
    assert not settlement.may_count_as_never_landed(made, attempt, seen, CAPABILITIES)


# --- gone and lost --------------------------------------------------------------------------------


def judged(
    bodies: list[Body],
    *shown: Sight,
    capabilities: Capabilities = CAPABILITIES,
    began: float = LATE,
    revision: int | None = None,
) -> str:
    """Which judgement a Find allows about `o1`."""
    made = record(*bodies)
    seen = view(made, began, *shown, revision=revision)
    if settlement.may_be_gone(made, known(made), seen, capabilities):
        return "gone"
    lost = settlement.may_be_lost(made, known(made), seen, capabilities)
    return "lost" if lost else "nothing"


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        (chosen(), "gone"),
        (launched(), "gone"),
        (opened(), "lost"),
        (opened(Done()), "lost"),
        (opened(NotSent("outcome")), "lost"),
        ([*opened(NotSent("outcome")), withdraw(3), replied(3, WON)], "gone"),
        ([*opened(Done()), withdraw(3), replied(3, WON)], "lost"),
        ([*opened(Done()), sighted(80, running())], "lost"),
        ([*chosen(), sighted(80, running())], "lost"),
        ([*opened(Done()), sighted(110, ended())], "nothing"),
        ([*opened(Done()), sighted(110, ended(idle=False))], "lost"),
    ],
)
def test_what_absence_may_mean(bodies: list[Body], expected: str) -> None:
    """Gone only without an opening that may have been sent, and with every permit won back."""
    assert judged(bodies) == expected


def test_nothing_is_judged_of_what_is_shown_or_newer_than_the_look() -> None:
    """The record must have known the object before the Find began [evidence-only]."""
    assert judged(chosen(), gated()) == "nothing"
    made = record(*launched())
    assert judged(launched(), revision=known(made).first_revision) == "gone"
    assert judged(launched(), revision=known(made).first_revision - 1) == "nothing"


def test_nothing_is_judged_while_a_call_may_land() -> None:
    """A start could make a twin of it, an opening could start it after the look."""
    assert judged(chosen(), capabilities=NEVER_FINAL, began=35) == "nothing"
    assert judged(opened(), began=65) == "nothing"
    assert judged(opened(), began=66) == "lost"


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        (chosen(), "gone"),
        (opened(NotSent("outcome")), "gone"),
        (opened(), "lost"),
        ([*launched()[:2], replied(1, building.BORN_OPEN)], "lost"),
        ([*chosen(), sighted(80, sight("o1", Phase.QUEUED))], "lost"),
        ([*chosen(), sighted(80, sight("o1", Phase.STOPPING))], "lost"),
        ([*chosen(), OpenedOutside("o1")], "lost"),
    ],
)
def test_without_permits_only_the_gate_proves_that_nothing_started(
    bodies: list[Body], expected: str
) -> None:
    """Where no wrapper refuses a start, what was ever seen past its gate may have run.

    [no-overlap] [evidence-only]
    """
    assert judged(bodies, capabilities=NO_PERMITS) == expected


def test_with_permits_the_wrapper_refuses_what_was_never_permitted() -> None:
    """Born without a gate or released by hand: without a permit it could not start."""
    assert judged([*launched()[:2], replied(1, building.BORN_OPEN)]) == "gone"
    assert judged([*chosen(), sighted(80, sight("o1", Phase.QUEUED))]) == "gone"


LOST = [*opened(Done()), sighted(80, running()), Lost("o1", at(200))]
ANSWERED = [withdraw(3), replied(3, STARTED)]
LIMIT = 200 + 600 + 10 + 5
"""Lost at 200, time limit 600, grace 10, bound 5."""


@pytest.mark.parametrize(
    ("bodies", "capabilities", "began", "resolved"),
    [
        (LOST, CAPABILITIES, LIMIT, False),
        (LOST, CAPABILITIES, LIMIT + 1, True),
        ([*LOST, *ANSWERED], CAPABILITIES, LIMIT, False),
        ([*opened(Done()), Lost("o1", at(200)), withdraw(3)], CAPABILITIES, LIMIT, False),
        (
            [*opened(Done()), Lost("o1", at(200)), withdraw(3), replied(3, WON)],
            CAPABILITIES,
            201,
            True,
        ),
        (
            [*opened(Done()), Lost("o1", at(200)), withdraw(3), replied(3, WON)],
            NO_PERMITS,
            201,
            False,
        ),
        ([*LOST, sighted(199, ended(idle=False))], CAPABILITIES, 201, True),
        (
            [*LOST, sighted(199, ended(idle=False, source=Source.SCHEDULER))],
            CAPABILITIES,
            201,
            False,
        ),
        ([*opened(Done()), sighted(80, running())], CAPABILITIES, LATE, False),
    ],
)
def test_a_loss_is_resolved_by_evidence_or_by_its_limit(
    bodies: list[Body], capabilities: Capabilities, began: float, resolved: bool
) -> None:
    """By its exit record, by withdrawals won, or when the wrapper's own limit has passed."""
    made = record(*bodies)
    seen = view(made, began)
    assert settlement.loss_resolved(made, known(made), seen, capabilities) is resolved


def test_one_exit_record_does_not_speak_for_another_start() -> None:
    """A loss is resolved for every incarnation, or not."""
    verdict = Verdict(Source.EXIT_RECORD, EXIT_1)
    two = sight("o1", Phase.RUNNING, Incarnation(0, started=True), Incarnation(1, verdict=verdict))
    both = sight(
        "o1",
        Phase.RUNNING,
        Incarnation(0, verdict=verdict, idle=True),
        Incarnation(1, verdict=verdict),
    )
    for shown, resolved in ((two, False), (both, True)):
        made = record(*opened(Done()), sighted(80, shown), Lost("o1", at(200)))
        assert (
            settlement.loss_resolved(made, known(made), view(made, 201), CAPABILITIES) is resolved
        )


@pytest.mark.parametrize(
    ("bodies", "shown", "accounted"),
    [
        ([sighted(110, ended())], (), True),
        ([sighted(110, ended())], (ended(),), True),
        ([sighted(110, ended())], (running(),), False),
        ([sighted(110, ended(idle=False))], (), False),
        ([sighted(80, running())], (), False),
        ([Gone("o1", at(200))], (), True),
        ([Gone("o1", at(200))], (gated(),), False),
        ([Lost("o1", at(900))], (), False),
        ([Lost("o1", at(200))], (), True),
    ],
)
def test_accounted_for_is_ended_gone_or_resolved_and_not_shown_otherwise(
    bodies: list[Body], shown: tuple[Sight, ...], accounted: bool
) -> None:
    """What this very Find shows outranks what the record believed."""
    made = record(*launched(), *bodies)
    seen = view(made, LATE, *shown)
    assert settlement.accounted(made, known(made), seen, CAPABILITIES) is accounted
