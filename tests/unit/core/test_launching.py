"""Before an outcome: authorize, attempt, choose, retire, conclude; the gate has its own tests."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_dispatch import limits
from airflow_dispatch.core import decision
from airflow_dispatch.core.causes import Cause, CauseKind
from airflow_dispatch.core.commits import (
    Authorized,
    Body,
    Chosen,
    Concluded,
    Gone,
    Intended,
    Lost,
    NeverLanded,
    Retired,
    Sight,
)
from airflow_dispatch.core.record import (
    Created,
    Done,
    Incarnation,
    NotSent,
    Outcome,
    OutcomeState,
    Permit,
    Phase,
    Record,
    Refused,
    Source,
    Start,
    Stop,
    Unclear,
    Verdict,
)
from airflow_dispatch.core.steps import Carry, Context, Decide, Send, Step, StepName, Wait, WaitKind
from tests.unit.core import building
from tests.unit.core.building import (
    BORN_OPEN,
    CAPABILITIES,
    EXIT_1,
    MANUAL_JOB,
    WON,
    at,
    begun,
    chosen,
    context,
    ended,
    gated,
    launched,
    opened,
    opening,
    record,
    replied,
    running,
    sight,
    sighted,
    start,
    stop,
    view,
    withdraw,
)

LATE = 700.0
REFUSED = Refused("busy", permanent=False)


def step(
    bodies: list[Body],
    *shown: Sight,
    began: float = LATE,
    revision: int | None = None,
    around: Context | None = None,
    manual: bool = False,
) -> Step:
    """The next step of that record, by a Find that shows these objects."""
    made = record(*bodies, first=begun(job=MANUAL_JOB) if manual else None)
    return decision.next(made, view(made, began, *shown, revision=revision), around or context())


def failure(taken: Step) -> Cause:
    """The cause with which the step concludes."""
    assert isinstance(taken, Decide)
    assert isinstance(taken.body, Concluded)
    assert taken.name is StepName.CONCLUDE
    cause = taken.body.outcome.cause
    assert cause is not None
    return cause


def waits(taken: Step) -> list[WaitKind]:
    """The kinds of waits that the step names."""
    assert isinstance(taken, Wait)
    return [wait.kind for wait in taken.waits]


# --- starting -------------------------------------------------------------------------------------


def test_a_new_job_is_authorized_before_anything_is_started() -> None:
    """Nothing runs that the record does not authorize [authorized-only]."""
    assert step([]) == Decide(StepName.AUTHORIZE, Authorized(1))


def test_an_attempt_is_committed_with_a_fresh_tag_and_a_deadline() -> None:
    """The deadline runs from the start of the Find that it was decided on, in cluster time."""
    expected = Intended(1, Start(1, 1, "fresh"), at(130))
    assert step([Authorized(1)], began=100) == Send(StepName.ATTEMPT, expected)


def test_the_next_attempt_waits_for_a_look_at_what_the_last_one_made() -> None:
    """A Find begun before the call was on record, or before its answer, tells nothing of it."""
    unanswered = [*launched()[:2]]
    made = record(*unanswered)
    assert waits(step(unanswered, began=9, revision=made.revision - 1)) == [WaitKind.LOOKING]
    answered: list[Body] = [*unanswered, replied(1, Unclear("timeout"))]
    assert waits(step(answered, began=9, revision=made.revision)) == [WaitKind.LOOKING]


@pytest.mark.parametrize(
    "bodies", [[], [replied(1, Unclear("timeout"))], [replied(1, NotSent("x"))]]
)
def test_an_unknown_attempt_is_followed_by_another(bodies: list[Body]) -> None:
    """After a crash or a lost reply, once a Find shows no object of it; it is never sent again."""
    taken = step([*launched()[:2], *bodies], began=10)
    assert isinstance(taken, Send)
    assert taken.body.intent == Start(1, 2, "fresh")


def test_three_unknown_attempts_are_all() -> None:
    """Each may still create an object: the status says so until the last can land no more."""
    unknown: list[Body] = [Authorized(1), start(1), start(2, 2, deadline=50)]
    unknown.append(start(3, 3, deadline=40))
    taken = step(unknown, began=10)
    assert waits(taken) == [WaitKind.ATTEMPTS]
    assert isinstance(taken, Wait)
    assert taken.until == at(56)


def test_what_never_landed_is_judged_and_then_the_launch_has_failed() -> None:
    """One judgement a step, by a Find begun after the bound; then no attempt is left."""
    bodies: list[Body] = [Authorized(1), start(1), start(2, 2), start(3, 3)]
    for number in (1, 2, 3):
        expected = Decide(StepName.NEVER_LANDED, NeverLanded(1, number))
        assert step(bodies, began=36) == expected
        bodies.append(expected.body)
    assert failure(step(bodies, began=36)).kind is CauseKind.LAUNCH_FAILED


@pytest.mark.parametrize("manual", [True, False])
def test_where_absence_closes_nothing_a_person_does(manual: bool) -> None:
    """Under `manual`, or where nothing bounds a start: no time ends that wait."""
    bodies: list[Body] = [Authorized(1), start(1), start(2, 2), start(3, 3)]
    unbounded = context(capabilities=replace(CAPABILITIES, start_bounded=False))
    taken = step(bodies, manual=manual, around=None if manual else unbounded)
    assert waits(taken) == [WaitKind.UNMATCHED]
    assert isinstance(taken, Wait)
    assert taken.until is None


def test_a_temporary_refusal_backs_off_and_uses_up_nothing() -> None:
    """Longer each time, up to a bound, and far more often than unknown attempts."""
    bodies: list[Body] = [Authorized(1)]
    pauses = []
    for number in range(1, 9):
        began = 1_000.0 * number
        bodies += [start(number, number, deadline=began + 30), replied(number, REFUSED)]
        taken = step(bodies, began=began + 1)
        assert waits(taken) == [WaitKind.REFUSED]
        assert isinstance(taken, Wait)
        assert taken.until is not None
        pauses.append((taken.until - at(began)) / timedelta(seconds=1))
        again = step(bodies, began=began + pauses[-1])
        assert isinstance(again, Send)
    assert pauses == [10, 20, 40, 80, 160, 300, 300, 300]


def test_temporary_refusals_have_a_limit() -> None:
    """Then the launch has failed, with the cluster's last words."""
    bodies: list[Body] = [Authorized(1)]
    for number in range(1, limits.REFUSALS_MAX + 2):
        bodies += [start(number, number), replied(number, REFUSED)]
    cause = failure(step(bodies))
    assert cause == Cause(CauseKind.LAUNCH_FAILED, detail="refused 101 times: busy")
    assert isinstance(step(bodies[:-2]), Send)


def test_a_refusal_for_good_rejects_the_job() -> None:
    """With the cluster's words, cut to what a record takes."""
    words = "x" * 3_000
    cause = failure(step([*launched()[:2], replied(1, Refused(words, permanent=True))]))
    assert cause.kind is CauseKind.REJECTED
    assert len(cause.detail) == limits.DETAIL_CHARS_MAX
    assert cause.detail.endswith("…")


def test_what_was_born_without_its_gate_is_retired_stopped_and_rejected() -> None:
    """In this order; the stop goes on while the outcome is decided [authorized-only]."""
    bodies: list[Body] = [*launched()[:2], replied(1, BORN_OPEN)]
    retired = step(bodies, running())
    assert isinstance(retired, Decide)
    assert retired.body == Retired("o1", "it was created without its gate")
    bodies += [sighted(5, running()), retired.body]
    stopped = step(bodies, running())
    assert isinstance(stopped, Send)
    assert stopped.body.intent == Stop("o1", "it was created without its gate")
    bodies.append(stopped.body)
    assert failure(step(bodies, running(), around=context(paced=[2]))).kind is CauseKind.REJECTED


def test_an_object_that_was_answered_and_is_not_shown_yet_is_waited_for() -> None:
    """No further attempt while one is known to have landed."""
    taken = step([*launched()[:2], replied(1, Created("o1"))], revision=3)
    assert waits(taken) == [WaitKind.LOOKING]


def test_attempts_whose_objects_are_gone_count_as_never_landed() -> None:
    """Three in all, whatever became of them."""
    bodies: list[Body] = [*launched(3), *(Gone(f"o{number}", at(9)) for number in (1, 2, 3))]
    assert failure(step(bodies)).detail == "none of 3 start calls led to an object"
    assert isinstance(step([*launched(), Gone("o1", at(9))]), Send)


# --- choosing -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ((gated("o1"), gated("o2")), "o1"),
        ((gated("o2"), gated("o3")), "o2"),
        ((gated("o2b"), gated("o2"), gated("o3")), "o2"),
        ((ended("o1", EXIT_1), gated("o2")), "o1"),
    ],
)
def test_the_lowest_attempt_that_is_shown_is_canonical(
    shown: tuple[Sight, ...], expected: str
) -> None:
    """Ended ones included, so that they decide; twins by a fixed order of identity."""
    bodies: list[Body] = [Authorized(1), start(1), start(2, 2), start(3, 3), sighted(5, *shown)]
    assert step(bodies, *shown, began=9) == Decide(StepName.CHOOSE, Chosen(1, expected))


@pytest.mark.parametrize("verdict", [EXIT_1, None])
def test_what_ended_before_it_was_chosen_still_decides(verdict: Cause | None) -> None:
    """Seen ended, then forgotten by the scheduler, and only then a supervisor came back.

    A finished run must not be waited for by a look that can never show it. [evidence-only]
    """
    bodies: list[Body] = [*launched(), sighted(110, ended("o1", verdict))]
    assert step(bodies) == Decide(StepName.CHOOSE, Chosen(1, "o1"))
    with_another: list[Body] = [*launched(2), sighted(110, ended("o1", verdict), gated("o2"))]
    assert step(with_another, gated("o2")) == Decide(StepName.CHOOSE, Chosen(1, "o1"))


def test_what_was_lost_before_it_was_chosen_still_decides() -> None:
    """It may have run, so no other attempt may take its place [no-overlap]."""
    bodies: list[Body] = [*launched(), sighted(80, running()), Lost("o1", at(200))]
    assert step(bodies) == Decide(StepName.CHOOSE, Chosen(1, "o1"))


def test_duplicates_are_retired_once_one_is_canonical_and_then_stopped() -> None:
    """Permanently, one a step, before anything is opened."""
    bodies: list[Body] = [*launched(2), sighted(5, gated("o1"), gated("o2"))]
    assert isinstance(step(bodies, gated("o1"), gated("o2")), Decide)
    bodies.append(Chosen(1, "o1"))
    expected = Retired("o2", "duplicate of o1")
    assert step(bodies, gated("o1"), gated("o2")) == Decide(StepName.RETIRE, expected)
    bodies.append(expected)
    taken = step(bodies, gated("o1"), gated("o2"))
    assert isinstance(taken, Send)
    assert taken.body.intent == Stop("o2", "duplicate of o1")


def test_a_stop_is_committed_once_and_carried_out_until_it_shows_effect() -> None:
    """Not again too soon, not once it is stopping, and never by a second intent."""
    bodies: list[Body] = [*launched(2), sighted(5, gated("o1"), gated("o2")), Chosen(1, "o1")]
    bodies += [Retired("o2", "duplicate of o1"), stop(3, "o2")]
    taken = step(bodies, gated("o1"), gated("o2"))
    assert isinstance(taken, Carry)
    assert taken.call.number == 3
    paced = step(bodies, gated("o1"), gated("o2"), around=context(paced=[3]))
    assert waits(paced) == [WaitKind.DUPLICATE]
    assert waits(step(bodies, gated("o1"), sight("o2", Phase.STOPPING))) == [WaitKind.DUPLICATE]
    assert isinstance(step(bodies, gated("o1"), ended("o2", EXIT_1)), Wait)


def test_a_superseded_submission_is_closed() -> None:
    """Its objects are retired on sight, its canonical one is stopped, a late one never chosen."""
    bodies: list[Body] = [*chosen(), Authorized(2)]
    taken = step(bodies, running())
    assert isinstance(taken, Send)
    assert taken.body.intent == Stop("o1", "superseded")
    late: list[Body] = [*launched(), Authorized(2), sighted(9, gated())]
    assert step(late, gated()) == Decide(
        StepName.RETIRE, Retired("o1", "submission 1 was superseded")
    )


# --- how it ends ----------------------------------------------------------------------------------


def test_success_rests_on_a_verdict() -> None:
    """Shown by this Find or by an earlier one [evidence-only]."""
    bodies: list[Body] = [*opened(Done()), sighted(110, ended())]
    expected = Decide(StepName.CONCLUDE, Concluded(Outcome(OutcomeState.SUCCEEDED, object="o1")))
    assert step(bodies, ended()) == expected
    assert step(bodies) == expected


def test_a_failure_carries_its_cause() -> None:
    """And the object that decided it."""
    taken = step([*opened(Done()), sighted(110, ended("o1", EXIT_1))])
    assert failure(taken) == EXIT_1
    assert isinstance(taken, Decide)
    assert taken.body == Concluded(building.FAILED)


def test_an_end_whose_own_records_cannot_be_read_is_undecided_for_a_while() -> None:
    """The scheduler's word alone must not outrun the exit record; then it has to do."""
    verdict = Verdict(Source.SCHEDULER, EXIT_1, at(100))
    unreadable = sight(
        "o1", Phase.ENDED, Incarnation(0, verdict=verdict, idle=True), unreadable=True
    )
    bodies: list[Body] = [*opened(Done()), sighted(110, unreadable)]
    taken = step(bodies, unreadable, began=159)
    assert waits(taken) == [WaitKind.WITNESS]
    assert isinstance(taken, Wait)
    assert taken.until == at(160)
    assert failure(step(bodies, unreadable, began=160)) == EXIT_1


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        (Phase.QUEUED, WaitKind.QUEUED),
        (Phase.RUNNING, WaitKind.RUNNING),
        (Phase.STOPPING, WaitKind.ENDING),
        (Phase.ENDED, WaitKind.ENDING),
    ],
)
def test_what_goes_on_is_waited_for(phase: Phase, expected: WaitKind) -> None:
    """Ended without a verdict is no end: word of how it ended is still to come."""
    bodies: list[Body] = [*opened(Done()), sighted(80, sight("o1", phase))]
    assert waits(step(bodies, sight("o1", phase))) == [expected]


def test_a_canonical_object_gone_before_its_gate_opened_fails_the_launch() -> None:
    """It was chosen for good; another attempt cannot take its place."""
    bodies = chosen()
    assert step(bodies) == Decide(StepName.GONE, Gone("o1", at(LATE)))
    bodies.append(Gone("o1", at(LATE)))
    assert failure(step(bodies)).kind is CauseKind.LAUNCH_FAILED


def test_a_missing_canonical_object_is_looked_for_while_its_call_may_land() -> None:
    """Its opening is not over: nothing is judged yet."""
    assert waits(step(opened(), began=20)) == [WaitKind.LOOKING]


# --- lost -----------------------------------------------------------------------------------------


def lost() -> list[Body]:
    """Opened, seen running, not found any more at second 200."""
    return [*opened(Done()), sighted(80, running()), Lost("o1", at(200))]


def test_what_may_have_run_and_is_not_found_is_lost_never_ended() -> None:
    """Absence is never success and never the end [evidence-only]."""
    assert step(lost()[:-1], began=200) == Decide(StepName.LOST, Lost("o1", at(200)))


def test_a_lost_run_is_taken_back_then_waited_for_then_unknown() -> None:
    """By withdrawal first; where it had started, until its own time limit has passed for sure."""
    taken = step(lost(), began=201)
    assert isinstance(taken, Send)
    assert taken.name is StepName.WITHDRAW
    answered = [*lost(), withdraw(3), replied(3, building.STARTED)]
    waiting = step(answered, began=202)
    assert waits(waiting) == [WaitKind.LOST]
    assert isinstance(waiting, Wait)
    assert waiting.until == at(816)
    assert failure(step(answered, began=816)).kind is CauseKind.UNKNOWN


def test_a_lost_run_that_never_claimed_its_start_is_resolved_at_once() -> None:
    """The withdrawal came first, for ever: it did not run, and whatever remains of it cannot."""
    bodies = [*opened(Done()), Lost("o1", at(200)), withdraw(3), replied(3, WON)]
    assert failure(step(bodies, began=202)).kind is CauseKind.UNKNOWN


def test_a_lost_run_whose_end_was_seen_is_concluded_by_it() -> None:
    """Seen ended, not yet idle, then forgotten: the verdict stands, the rest is settling's part."""
    verdict = ended("o1", EXIT_1, idle=False, source=Source.SCHEDULER)
    bodies = [*opened(Done()), sighted(110, verdict), Lost("o1", at(200))]
    assert failure(step(bodies, began=202)) == EXIT_1


def test_without_permits_a_lost_run_is_waited_for() -> None:
    """Nothing can take it back, so its limit has to pass."""
    around = context(capabilities=replace(CAPABILITIES, permits=False))
    assert waits(step(lost(), began=202, around=around)) == [WaitKind.LOST]


def test_a_withdrawal_without_an_answer_is_asked_for_again() -> None:
    """Under a new intent, and not too soon."""
    bodies = [*lost(), withdraw(3), replied(3, Unclear("timeout"))]
    again = step(bodies, began=205)
    assert isinstance(again, Send)
    assert again.body.number == 4
    assert waits(step(bodies, began=205, around=context(paced=[3]))) == [WaitKind.LOST]


# --- never two ------------------------------------------------------------------------------------


def test_what_came_back_to_its_gate_after_a_start_is_stopped_never_opened() -> None:
    """The scheduler rolled back; the first start may still run and owns the outcome.

    [no-overlap]
    """
    bodies: list[Body] = [*opened(Done()), sighted(80, running()), sighted(300, gated())]
    taken = step(bodies, gated())
    assert isinstance(taken, Send)
    assert taken.body.intent == Stop("o1", "it came back to its gate after a start")
    bodies.append(stop(3, "o1"))
    assert waits(step(bodies, gated(), around=context(paced=[3]))) == [WaitKind.STOPPING]


def test_what_starts_again_by_itself_is_stopped_and_decides_nothing() -> None:
    """An incarnation beyond the permit is a revenant: shown, stopped, never followed."""
    bodies: list[Body] = [*opened(Done()), sighted(80, running()), sighted(300, running(count=1))]
    taken = step(bodies, running(count=1))
    assert isinstance(taken, Send)
    assert taken.body.intent == Stop("o1", "it started again without leave")
    bodies.append(stop(3, "o1"))
    assert waits(step(bodies, running(count=1), around=context(paced=[3]))) == [WaitKind.STOPPING]
    over = Incarnation(1, started=True, verdict=Verdict(Source.SCHEDULER, None), idle=True)
    first = Incarnation(0, started=True)
    shown = sight("o1", Phase.ENDED, first, over)
    still = step([*bodies, sighted(310, shown)], shown, around=context(paced=[3]))
    assert waits(still) == [WaitKind.STOPPING]
    idle = sight("o1", Phase.ENDED, replace(first, idle=True), over)
    assert failure(step([*bodies, sighted(310, idle)], idle)).kind is CauseKind.UNKNOWN


@pytest.mark.parametrize("again", [running(count=1), sight("o1", Phase.QUEUED, Incarnation(1))])
def test_a_verdict_stands_though_the_object_comes_back(again: Sight) -> None:
    """Ended well; before anybody concluded, somebody requeued it: the success is what counts."""
    bodies: list[Body] = [*opened(Done()), sighted(110, ended()), sighted(300, again)]
    taken = step(bodies, again)
    assert isinstance(taken, Decide)
    assert taken.body == Concluded(Outcome(OutcomeState.SUCCEEDED, object="o1"))


def test_a_second_permit_makes_its_start_the_one_that_decides() -> None:
    """A permit may cover a later start count; then that start is the run."""
    permit = Permit(2, 1, 1)
    bodies: list[Body] = [*opened(Done()), Lost("o1", at(200)), withdraw(3), replied(3, WON)]
    bodies += [sighted(300, sight("o1", Phase.GATED, Incarnation(0, idle=True), Incarnation(1)))]
    bodies += [opening(4, permit=permit), replied(4, Done()), sighted(310, running(count=1))]
    assert waits(step(bodies, running(count=1))) == [WaitKind.RUNNING]


def test_a_stop_that_has_no_effect_hides_nothing() -> None:
    """A duplicate that nobody can stop is stopped again and again; the run concludes all the same.

    However slow the stop is, and however often it may be repeated.
    """
    bodies: list[Body] = [*launched(2), sighted(5, gated("o1"), gated("o2")), Chosen(1, "o1")]
    bodies += [Retired("o2", "duplicate of o1"), stop(3, "o2")]
    bodies += [sighted(110, ended("o1"), gated("o2"))]
    taken = step(bodies, ended("o1"), gated("o2"))
    assert isinstance(taken, Decide)
    assert taken.name is StepName.CONCLUDE


def test_only_an_opening_is_read_again_before_it_is_sent() -> None:
    """A start lands behind its gate, a stop is always wanted."""
    made: Record = record(*opened())
    for call in (made.state.calls[0],):
        assert decision.reason_not_to_send(made, call) == ""
