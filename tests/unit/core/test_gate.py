"""The gate: opened only where nothing is in the way, and never twice for one start [no-overlap]."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_dispatch.core import decision, launching
from airflow_dispatch.core.causes import CauseKind
from airflow_dispatch.core.commits import (
    Authorized,
    Body,
    Cancelled,
    Chosen,
    Concluded,
    Gone,
    Intended,
    Lost,
    OpenedOutside,
    Retired,
    Sight,
)
from airflow_dispatch.core.identity import TaskKey
from airflow_dispatch.core.record import (
    Created,
    Done,
    NotSent,
    Open,
    Permit,
    Phase,
    Refused,
    Reply,
    Stop,
    Unclear,
)
from airflow_dispatch.core.settlement import Predecessor
from airflow_dispatch.core.steps import Context, Decide, Send, Step, StepName, Wait, WaitKind
from airflow_dispatch.errors import InvariantBroken
from tests.unit.core.building import (
    CAPABILITIES,
    EXIT_1,
    PERMIT,
    STARTED,
    SUCCEEDED,
    WON,
    at,
    begun,
    chosen,
    context,
    ended,
    foreign,
    gated,
    launched,
    mark,
    opened,
    opening,
    record,
    replied,
    running,
    sight,
    sighted,
    start,
    view,
    withdraw,
)

LATE = 700.0


def step(
    bodies: list[Body],
    *shown: Sight,
    began: float = LATE,
    revision: int | None = None,
    around: Context | None = None,
    predecessor: int | None = None,
) -> Step:
    """The next step of that record, by a Find that shows these objects."""
    first = begun(generation=2, predecessor=predecessor) if predecessor else None
    made = record(*bodies, first=first)
    return decision.next(made, view(made, began, *shown, revision=revision), around or context())


def waits(taken: Step) -> list[WaitKind]:
    """The kinds of waits that the step names."""
    assert isinstance(taken, Wait)
    return [wait.kind for wait in taken.waits]


def sent_opening(taken: Step) -> Open:
    """The opening that the step commits and sends."""
    assert isinstance(taken, Send)
    assert taken.name is StepName.OPEN
    assert isinstance(taken.body.intent, Open)
    return taken.body.intent


# --- opening --------------------------------------------------------------------------------------


def test_a_gate_is_opened_under_a_permit_with_a_deadline() -> None:
    """The intent is committed first: object, permit, start counts, deadline in cluster time."""
    expected = Intended(2, Open("o1", Permit(1, 0, 0)), at(130))
    assert step(chosen(), gated(), began=100) == Send(StepName.OPEN, expected)


DUPLICATE: list[Body] = [
    *launched(2),
    sighted(5, gated("o1"), gated("o2")),
    Chosen(1, "o1"),
    Retired("o2", "duplicate of o1"),
]


@pytest.mark.parametrize(
    ("later", "shown"),
    [
        ([], gated("o2")),
        ([sighted(80, running("o2"))], running("o2")),
        ([sighted(80, ended("o2", EXIT_1, idle=False))], ended("o2", EXIT_1, idle=False)),
        ([sighted(80, sight("o2", Phase.STOPPING))], sight("o2", Phase.STOPPING)),
    ],
)
def test_a_duplicate_keeps_the_gate_shut_while_it_is_there(later: list[Body], shown: Sight) -> None:
    """Gated, running, stopping, or ended with something of it still about."""
    bodies = [*DUPLICATE, *later, Intended(3, Stop("o2", "duplicate"))]
    taken = step(bodies, gated(), shown, around=context(paced=[3]))
    assert waits(taken) == [WaitKind.DUPLICATE]


def test_a_duplicate_that_is_accounted_for_is_in_nobodys_way() -> None:
    """Ended, or gone."""
    assert (
        sent_opening(step([*DUPLICATE, sighted(80, ended("o2", EXIT_1))], gated())).object == "o1"
    )
    assert sent_opening(step([*DUPLICATE, Gone("o2", at(90))], gated())).object == "o1"


def test_a_lost_duplicate_keeps_the_gate_shut_until_its_limit() -> None:
    """It may have run: absence alone accounts for nothing."""
    bodies = [*DUPLICATE, sighted(80, running("o2"), gated()), Lost("o2", at(90))]
    assert waits(step(bodies, gated(), began=LATE)) == [WaitKind.DUPLICATE]
    assert sent_opening(step(bodies, gated(), began=90 + 600 + 10 + 5 + 1)).object == "o1"


def test_a_foreign_object_keeps_the_gate_shut_and_is_not_touched() -> None:
    """Somebody has to look at it; it is never stopped by a launch."""
    bodies = [*chosen(), sighted(6, foreign())]
    assert waits(step(bodies, gated(), foreign())) == [WaitKind.FOREIGN]


def test_anything_alive_of_the_task_keeps_the_gate_shut() -> None:
    """Another generation's, or one that the record could not take in any more."""
    other = gated("x", of=mark(1, generation=2))
    assert waits(step(chosen(), gated(), other)) == [WaitKind.ELSE_ALIVE]
    assert waits(step(chosen(), gated(), gated("o9"))) == [WaitKind.ELSE_ALIVE]
    over = ended("x", EXIT_1, of=mark(1, generation=2))
    assert sent_opening(step(chosen(), gated(), over)).object == "o1"


def test_another_tasks_object_is_none_of_our_business() -> None:
    """A shared Find may show it."""
    other = replace(mark(), task_digest=TaskKey("d", "other", "r", "t").digest)
    assert sent_opening(step(chosen(), gated(), running("x", of=other))).object == "o1"


def test_a_question_of_airflows_rows_keeps_the_gate_shut() -> None:
    """What runs goes on, and nothing new begins, until a person answers [follows-the-task]."""
    assert waits(step(chosen(), gated(), around=context(asked=True))) == [WaitKind.ASKED]


def test_the_find_must_have_begun_after_the_launch_was_authorized() -> None:
    """A slow look from before shows nothing of what was done since."""
    assert WaitKind.LOOKING in waits(step(chosen(), gated(), revision=1))


def test_an_earlier_submission_must_be_accounted_for_and_its_permits_taken_back() -> None:
    """And its starts and openings be over; a late twin of this one's start can only be gated."""
    one: list[Body] = [*opened(Done()), sighted(80, running())]
    two: list[Body] = [Authorized(2), start(3, 1, submission=2), replied(3, Created("p1"))]
    new = gated("p1", of=mark(1, submission=2))
    bodies = [*one, *two, sighted(90, new), Chosen(2, "p1"), Intended(4, Stop("o1", "superseded"))]
    paced = context(paced=[4])
    assert waits(step(bodies, running(), new, around=paced)) == [
        WaitKind.EARLIER_SUBMISSION,
        WaitKind.WITHDRAWAL,
    ]
    bodies += [sighted(120, ended("o1", EXIT_1))]
    assert waits(step(bodies, new)) == [WaitKind.WITHDRAWAL]
    bodies += [withdraw(5), replied(5, STARTED)]
    made = record(*bodies)
    assert waits(step(bodies, new, revision=made.revision - 1)) == [WaitKind.WITHDRAWAL]
    assert sent_opening(step(bodies, new)) == Open("p1", Permit(1, 0, 0))
    without = context(capabilities=replace(CAPABILITIES, permits=False))
    assert sent_opening(step(bodies[:-2], new, around=without)).object == "p1"


def test_a_start_of_an_earlier_submission_in_flight_keeps_the_gate_shut() -> None:
    """A start of this one does not: what it makes is born gated."""
    own: list[Body] = [*chosen(), start(2, 2, deadline=696)]
    assert sent_opening(step(own, gated())).object == "o1"
    new = gated("p1", of=mark(1, submission=2))
    earlier: list[Body] = [Authorized(1), start(1, deadline=696), Authorized(2)]
    earlier += [start(2, 1, submission=2), sighted(5, new), Chosen(2, "p1")]
    taken = step(earlier, new)
    assert waits(taken) == [WaitKind.CALL]
    assert isinstance(taken, Wait)
    assert taken.until == at(702)


# --- the earlier try ------------------------------------------------------------------------------


def predecessor(*bodies: Body, shown: tuple[Sight, ...] = ()) -> Predecessor:
    """The first try's record, with this pass's view of it."""
    made = record(*bodies)
    return Predecessor(made, view(made, LATE, *shown), CAPABILITIES)


SECOND: list[Body] = [
    Authorized(1),
    start(1),
    sighted(5, gated("o1", of=mark(1, generation=2))),
    Chosen(1, "o1"),
]
SECOND_GATED = gated("o1", of=mark(1, generation=2))


@pytest.mark.parametrize(
    "earlier",
    [
        (),
        (predecessor(),),
        (predecessor(*opened(Done()), sighted(80, running()), Cancelled("cleared")),),
        (predecessor(Cancelled("cleared")),),
    ],
)
def test_the_gate_waits_for_the_earlier_try(earlier: tuple[Predecessor, ...]) -> None:
    """Not loaded, without an outcome, still running, or not yet cleaned up."""
    taken = step(SECOND, SECOND_GATED, around=context(predecessors=earlier), predecessor=1)
    assert waits(taken) == [WaitKind.PREDECESSOR]


def test_the_gate_opens_once_the_earlier_try_is_quiet() -> None:
    """By a Find of this very pass."""
    ended_well: list[Body] = [*opened(Done()), sighted(110, ended()), Concluded(SUCCEEDED)]
    quiet = predecessor(*ended_well, withdraw(3), replied(3, STARTED))
    taken = step(SECOND, SECOND_GATED, around=context(predecessors=(quiet,)), predecessor=1)
    assert sent_opening(taken).object == "o1"


# --- opening again --------------------------------------------------------------------------------


@pytest.mark.parametrize("reply", [None, Unclear("timeout")])
def test_an_unanswered_opening_is_waited_for_and_then_repeated(reply: Reply | None) -> None:
    """Under the same permit, so that there is never more than one leave to start."""
    waiting = step(opened(reply), gated(), began=65)
    assert waits(waiting) == [WaitKind.CALL]
    assert isinstance(waiting, Wait)
    assert waiting.until == at(66)
    assert sent_opening(step(opened(reply), gated(), began=66)).permit == PERMIT


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Done(), WaitKind.CALL),
        (NotSent("drained"), WaitKind.CALL),
        (Refused("busy", permanent=False), WaitKind.REFUSED),
    ],
)
def test_an_opening_without_effect_is_repeated_after_a_pause(reply: Reply, kind: WaitKind) -> None:
    """Not at once: each repetition is a commit and a call."""
    waiting = step(opened(reply), gated(), began=39)
    assert waits(waiting) == [kind]
    assert isinstance(waiting, Wait)
    assert waiting.until == at(40)
    assert sent_opening(step(opened(reply), gated(), began=40)).permit == PERMIT


def test_a_gate_that_is_refused_for_good_fails_the_launch() -> None:
    """With the cluster's words."""
    taken = step(opened(Refused("no such job", permanent=True)), gated())
    assert isinstance(taken, Decide)
    assert isinstance(taken.body, Concluded)
    cause = taken.body.outcome.cause
    assert cause is not None
    assert (cause.kind, cause.detail) == (CauseKind.LAUNCH_FAILED, "no such job")


def test_a_permit_that_was_taken_back_is_followed_by_the_next() -> None:
    """Found again after it was lost and its permit withdrawn: its start needs a new leave."""
    bodies = [*opened(Done()), Lost("o1", at(200)), withdraw(3), replied(3, WON)]
    bodies.append(sighted(300, gated()))
    assert sent_opening(step(bodies, gated())) == Open("o1", Permit(2, 0, 0))


def test_a_withdrawal_under_way_is_finished_before_the_gate_opens() -> None:
    """Otherwise the opened object would find its leave taken back."""
    bodies = [*opened(Done()), Lost("o1", at(200)), withdraw(3), sighted(300, gated())]
    taken = step(bodies, gated())
    assert isinstance(taken, Send)
    assert taken.name is StepName.WITHDRAW
    assert waits(step(bodies, gated(), around=context(paced=[3]))) == [WaitKind.WITHDRAWAL]


# --- opened outside -------------------------------------------------------------------------------


@pytest.mark.parametrize("shown", [sight("o1", Phase.QUEUED), running()])
def test_a_run_opened_outside_is_taken_over_where_it_might_be_opened(shown: Sight) -> None:
    """Then it is followed like any other."""
    bodies: list[Body] = [*chosen(), sighted(80, shown)]
    assert step(bodies, shown) == Decide(StepName.OPENED_OUTSIDE, OpenedOutside("o1"))
    assert isinstance(step([*bodies, OpenedOutside("o1")], shown), Wait)


def test_a_run_opened_outside_at_the_wrong_time_is_stopped_and_fails() -> None:
    """Something was in its way; the cause says what, once for each kind."""
    shown = [foreign("f1"), foreign("f2"), running()]
    bodies: list[Body] = [*chosen(), sighted(80, *shown)]
    taken = step(bodies, *shown)
    assert isinstance(taken, Send)
    assert taken.body.intent == Stop("o1", "its gate was opened outside")
    bodies.append(taken.body)
    over = step(bodies, *shown, around=context(paced=[2]))
    assert isinstance(over, Decide)
    assert isinstance(over.body, Concluded)
    assert str(over.body.outcome.cause).endswith("while it had to wait (foreign)")


def test_any_number_of_things_in_the_way_still_gives_a_cause() -> None:
    """The words are cut, whatever is in the way and however long a scheduler's names are."""
    name = "x" * 3_000
    shown = [sight(name, Phase.RUNNING, *running().incarnations, of=mark()), foreign()]
    bodies: list[Body] = [*launched()[:2], sighted(80, *shown), Chosen(1, name)]
    taken = step(bodies, *shown, around=context(asked=True, paced=[2]))
    assert isinstance(taken, Send)
    over = step([*bodies, taken.body], *shown, around=context(asked=True, paced=[2]))
    assert isinstance(over, Decide)


def test_what_was_opened_outside_goes_on_while_a_person_is_asked() -> None:
    """Airflow's rows leave it open: nothing is opened, and nothing that runs is stopped."""
    shown = running()
    bodies: list[Body] = [*launched(), sighted(80, shown), Chosen(1, shown.id)]
    assert waits(step(bodies, shown, around=context(asked=True))) == [WaitKind.ASKED]


# --- right before the call ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        ([], ""),
        ([sighted(61, foreign())], ""),
        ([replied(2, Unclear("x"))], ""),
        ([Cancelled("stop it")], "the job has an outcome: cancelled by"),
        ([Authorized(2)], "not the canonical one of the newest submission"),
    ],
)
def test_an_opening_is_not_sent_from_a_read_that_saw_why_not(
    later: list[Body], reason: str
) -> None:
    """An outcome or a newer submission; evidence alone does not matter [cancel-final]."""
    call = record(*opened()).state.calls[-1]
    found = decision.reason_not_to_send(record(*opened(), *later), call)
    assert reason in found
    assert bool(found) is bool(reason)


def test_an_opening_is_not_sent_for_a_record_that_does_not_know_it() -> None:
    """Another record, or an older one, read by mistake."""
    call = record(*opened()).state.calls[-1]
    assert decision.reason_not_to_send(record(), call)


def test_other_calls_are_sent_as_committed() -> None:
    """A start lands behind its gate, stops and withdraws are always wanted."""
    made = record(*chosen(), Intended(2, Stop("o1", "x")), withdraw(3), Cancelled("x"))
    assert {decision.reason_not_to_send(made, call) for call in made.state.calls} == {""}


def test_the_gate_of_anything_else_is_no_question() -> None:
    """Only the newest submission's canonical object of a job without outcome has one."""
    for bodies in ([*chosen(), Cancelled("x")], [*chosen(), Authorized(2)], launched()):
        made = record(*bodies)
        known = made.state.object("o1")
        assert known is not None
        with pytest.raises(InvariantBroken, match="a gate is opened"):
            list(launching.gate_waits(made, view(made, 9), context(), canonical=known))


def test_an_opening_that_was_repeated_still_counts_as_one() -> None:
    """Shown running after the repetition was not sent: it was opened by us, not from outside."""
    bodies = [*opened(Unclear("x")), opening(3, deadline=120), replied(3, NotSent("x"))]
    taken = step([*bodies, sighted(130, running())], running())
    assert waits(taken) == [WaitKind.RUNNING]
