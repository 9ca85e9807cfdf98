"""After an outcome: stop, take back, account for, settle; nothing is launched any more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_dispatch.core import decision
from airflow_dispatch.core.commits import (
    Body,
    Cancelled,
    Concluded,
    Gone,
    Lost,
    NeverLanded,
    Quieted,
    Settled,
    Sight,
)
from airflow_dispatch.core.record import (
    Done,
    Incarnation,
    Phase,
    Refused,
    Source,
    Stop,
    StopJob,
    Unclear,
    Verdict,
    Withdraw,
)
from airflow_dispatch.core.steps import (
    Carry,
    Context,
    Decide,
    Rest,
    Send,
    Step,
    StepName,
    Wait,
    WaitKind,
)
from tests.unit.core.building import (
    CAPABILITIES,
    EXIT_1,
    MANUAL_JOB,
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
    opened,
    opening,
    record,
    replied,
    running,
    sight,
    sighted,
    stop,
    stop_job,
    view,
    withdraw,
)

LATE = 700.0
CANCEL = Cancelled("stop it")


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


def waits(taken: Step) -> list[WaitKind]:
    """The kinds of waits that the step names."""
    assert isinstance(taken, Wait)
    return [wait.kind for wait in taken.waits]


def succeeded() -> list[Body]:
    """Ended well; its permit is not taken back yet."""
    return [*opened(Done()), sighted(110, ended()), Concluded(SUCCEEDED)]


def taken_back() -> list[Body]:
    """The same with the withdrawal answered."""
    return [*succeeded(), withdraw(3), replied(3, STARTED)]


def cancelled() -> list[Body]:
    """Running when it was cancelled; the first round of stops is answered."""
    return [*opened(Done()), sighted(80, running()), CANCEL, stop_job(3, 1), replied(3, Done())]


# --- stopping -------------------------------------------------------------------------------------


def test_a_cancel_stops_everything_by_the_mark_first() -> None:
    """Before single objects, and what the record never learned of included [cancel-final]."""
    taken = step([*opened(Done()), sighted(80, running()), CANCEL], running())
    assert isinstance(taken, Send)
    assert (taken.name, taken.body.intent) == (StepName.STOP_JOB, StopJob(1))


@pytest.mark.parametrize(
    "answer", [[], [replied(3, Unclear("timeout"))], [replied(3, Refused("no", permanent=True))]]
)
def test_a_round_of_stops_is_carried_out_until_it_is_taken(answer: list[Body]) -> None:
    """A refusal is no receipt. Meanwhile each object is stopped for itself."""
    bodies: list[Body] = [*opened(Done()), sighted(80, running()), CANCEL, stop_job(3, 1), *answer]
    meanwhile = step(bodies, running())
    assert isinstance(meanwhile, Send)
    assert isinstance(meanwhile.body.intent, Stop)
    bodies += [stop(4, "o1"), withdraw(5), replied(5, STARTED)]
    again = step(bodies, running(), around=context(paced=[4]))
    assert isinstance(again, Carry)
    assert again.call.number == 3
    assert isinstance(step(bodies, running(), around=context(paced=[3, 4])), Wait)


@pytest.mark.parametrize(
    "shown", [running(), gated(), ended(idle=False), sight("o1", Phase.QUEUED), running("o1b")]
)
def test_what_is_alive_after_an_outcome_is_stopped(shown: Sight) -> None:
    """Running, gated, ghosts, duplicates, revenants, whatever the outcome."""
    bodies: list[Body] = [*succeeded(), sighted(120, shown)]
    taken = step(bodies, shown)
    assert isinstance(taken, Send)
    assert taken.body.intent == Stop(shown.id, "the job has its outcome (succeeded)")


def test_what_is_stopping_or_idle_is_not_stopped_again() -> None:
    """It shows the effect already."""
    bodies: list[Body] = [*cancelled(), withdraw(4), replied(4, STARTED)]
    stopping = sight("o1", Phase.STOPPING, *running().incarnations)
    assert waits(step(bodies, stopping)) == [WaitKind.STOPPING]


def test_a_foreign_object_is_stopped_by_a_cancel_only() -> None:
    """Other outcomes leave it to a person."""
    assert WaitKind.FOREIGN in waits(step([*taken_back(), sighted(120, foreign())], foreign()))
    bodies: list[Body] = [CANCEL, stop_job(1, 1), replied(1, Done()), sighted(120, foreign())]
    taken = step(bodies, foreign())
    assert isinstance(taken, Send)
    assert isinstance(taken.body.intent, Stop)
    assert waits(step([*bodies, stop(2, "f1")], foreign(), around=context(paced=[2])))[0] is (
        WaitKind.STOPPING
    )


def test_permits_are_taken_back_after_the_stops() -> None:
    """Whether they were used or not: nobody may start under them any more."""
    taken = step(succeeded(), ended())
    assert isinstance(taken, Send)
    assert taken.body.intent == Withdraw("o1", PERMIT)
    paced = context(paced=[3])
    assert waits(step([*succeeded(), withdraw(3)], around=paced)) == [WaitKind.WITHDRAWAL]
    again = step([*succeeded(), withdraw(3), replied(3, Unclear("timeout"))])
    assert isinstance(again, Send)
    assert again.body.number == 4


def test_a_cluster_without_permits_settles_without_withdrawals() -> None:
    """It could never answer one."""
    around = context(capabilities=replace(CAPABILITIES, permits=False))
    assert step(succeeded(), ended(), around=around) == Decide(StepName.QUIET, Quieted(at(LATE)))


def test_stops_without_effect_hide_no_judgement() -> None:
    """What cannot be stopped is stopped again when nothing else is left to decide."""
    bodies: list[Body] = [*launched(2), sighted(5, gated("o1"), gated("o2")), CANCEL]
    bodies += [stop_job(3, 1), replied(3, Done()), stop(4, "o2")]
    assert step(bodies, gated("o2")) == Decide(StepName.GONE, Gone("o1", at(LATE)))
    bodies.append(Gone("o1", at(LATE)))
    taken = step(bodies, gated("o2"))
    assert isinstance(taken, Carry)
    assert taken.call.number == 4


def test_the_second_round_follows_when_nothing_lives_and_the_first_was_taken() -> None:
    """Something may have landed between the two."""
    over: list[Body] = [*cancelled(), sighted(200, ended("o1", EXIT_1)), withdraw(4)]
    over.append(replied(4, STARTED))
    taken = step(over, ended("o1", EXIT_1))
    assert isinstance(taken, Send)
    assert taken.body.intent == StopJob(2)
    first_unclear: list[Body] = [CANCEL, stop_job(1, 1), replied(1, Unclear("timeout"))]
    assert waits(step(first_unclear, around=context(paced=[1]))) == [WaitKind.STOPPING]


def test_a_cancelled_job_is_quiet_only_after_its_second_round() -> None:
    """By a Find begun after its answer."""
    bodies: list[Body] = [CANCEL, stop_job(1, 1), replied(1, Done()), stop_job(2, 2)]
    assert waits(step(bodies, around=context(paced=[2]))) == [WaitKind.STOPPING]
    bodies.append(replied(2, Done()))
    made = record(*bodies)
    assert waits(step(bodies, revision=made.revision - 1)) == [WaitKind.LOOKING]
    assert step(bodies) == Decide(StepName.QUIET, Quieted(at(LATE)))


# --- accounting -----------------------------------------------------------------------------------


def test_judgements_from_absence_go_on_after_an_outcome() -> None:
    """Gone, lost, never landed: everything is accounted for [nothing-forgotten]."""
    assert step([*chosen(), Concluded(SUCCEEDED)]) == Decide(StepName.GONE, Gone("o1", at(LATE)))
    unknown: list[Body] = [*launched()[:2], Concluded(SUCCEEDED)]
    assert step(unknown) == Decide(StepName.NEVER_LANDED, NeverLanded(1, 1))
    may_have_run: list[Body] = [*cancelled(), withdraw(4), replied(4, STARTED)]
    assert step(may_have_run) == Decide(StepName.LOST, Lost("o1", at(LATE)))


def test_a_lost_run_is_waited_for_until_its_limit() -> None:
    """Nobody saw it end, so the job settles when it must have ended."""
    bodies: list[Body] = [*opened(Done()), sighted(80, running()), Lost("o1", at(200))]
    bodies += [Concluded(SUCCEEDED), withdraw(3), replied(3, STARTED)]
    taken = step(bodies)
    assert waits(taken) == [WaitKind.LOST]
    assert isinstance(taken, Wait)
    assert taken.until == at(816)
    assert step(bodies, began=816) == Decide(StepName.QUIET, Quieted(at(816)))


def test_an_end_without_idleness_is_waited_for() -> None:
    """The verdict gave the outcome; its processes may still be there [no-overlap]."""
    verdict = sight(
        "o1", Phase.STOPPING, Incarnation(0, verdict=Verdict(Source.SCHEDULER, None), started=True)
    )
    bodies: list[Body] = [*opened(Done()), sighted(110, verdict), Concluded(SUCCEEDED)]
    bodies += [withdraw(3), replied(3, STARTED)]
    assert waits(step(bodies, verdict)) == [WaitKind.STOPPING]


def test_a_call_that_may_land_is_waited_for_until_it_cannot() -> None:
    """Deadline and bound, not the deadline alone: the wait ends in the future."""
    bodies: list[Body] = [*launched()[:2], CANCEL, stop_job(2, 1), replied(2, Done())]
    bodies += [stop_job(3, 2), replied(3, Done())]
    taken = step(bodies, began=33)
    assert waits(taken) == [WaitKind.CALL]
    assert isinstance(taken, Wait)
    assert taken.until == at(36)


def test_an_unanswered_opening_is_waited_for_after_a_cancel() -> None:
    """It may still land: it is then stopped, before the record settles [cancel-final]."""
    bodies: list[Body] = [*opened(), CANCEL, stop_job(3, 1), replied(3, Done())]
    bodies += [withdraw(4), replied(4, WON), sighted(61, ended("o1", EXIT_1, started=False))]
    bodies += [stop_job(5, 2), replied(5, Done())]
    assert waits(step(bodies, ended("o1", EXIT_1, started=False), began=62)) == [WaitKind.CALL]


# --- settling -------------------------------------------------------------------------------------


def test_quiet_then_settled_then_rest() -> None:
    """Two decisions, each on record, then nothing is left to do."""
    bodies = taken_back()
    assert step(bodies, ended()) == Decide(StepName.QUIET, Quieted(at(LATE)))
    bodies.append(Quieted(at(LATE)))
    assert step(bodies, ended()) == Decide(StepName.SETTLE, Settled())
    bodies.append(Settled())
    assert step(bodies, ended()) == Rest()
    assert step(bodies) == Rest()


def test_a_job_of_which_nothing_was_ever_launched_settles() -> None:
    """Cancelled before its first attempt."""
    bodies: list[Body] = [CANCEL]
    for round_ in (1, 2):
        taken = step(bodies)
        assert isinstance(taken, Send)
        bodies += [taken.body, replied(round_, Done())]
    assert step(bodies) == Decide(StepName.QUIET, Quieted(at(LATE)))


def test_a_foreign_object_and_an_unmatched_attempt_keep_a_quiet_job_open() -> None:
    """Both need a person; the task is not kept from its outcome by them."""
    gone_foreign: list[Body] = [*taken_back(), sighted(120, foreign()), Gone("f1", at(200))]
    assert waits(step([*gone_foreign, Quieted(at(300))], ended())) == [WaitKind.FOREIGN]
    unknown: list[Body] = [*launched()[:2], Concluded(SUCCEEDED), Quieted(at(300))]
    assert waits(step(unknown, manual=True)) == [WaitKind.UNMATCHED]


def test_what_lands_after_settlement_is_stopped_and_settled_again() -> None:
    """Late evidence is taken even then; the outcome stands [nothing-forgotten]."""
    bodies: list[Body] = [*taken_back(), Quieted(at(300)), Settled(), sighted(400, gated("o1b"))]
    taken = step(bodies, ended(), gated("o1b"))
    assert isinstance(taken, Send)
    assert isinstance(taken.body.intent, Stop)
    bodies += [taken.body, sighted(500, ended("o1b", EXIT_1, started=False))]
    shown = (ended(), ended("o1b", EXIT_1, started=False))
    assert step(bodies, *shown) == Decide(StepName.QUIET, Quieted(at(LATE)))
    bodies.append(Quieted(at(LATE)))
    assert step(bodies, *shown) == Decide(StepName.SETTLE, Settled())


def test_a_settled_job_that_shows_something_alive_does_not_rest() -> None:
    """Also by a view of which the evidence could not be filed yet."""
    bodies: list[Body] = [*taken_back(), Quieted(at(LATE + 1)), Settled()]
    assert isinstance(step(bodies, running()), Send)


def test_a_job_is_not_quiet_before_its_earlier_try() -> None:
    """An empty second try does not settle past a first one that runs [no-overlap]."""
    bodies: list[Body] = [CANCEL, stop_job(1, 1), replied(1, Done())]
    bodies += [stop_job(2, 2), replied(2, Done())]
    made = record(*bodies, first=begun(generation=2, predecessor=1))
    taken = decision.next(made, view(made, LATE), context())
    assert waits(taken) == [WaitKind.PREDECESSOR]


def test_the_look_must_have_begun_after_the_outcome() -> None:
    """What was seen before shows nothing of what a stalled supervisor did until then."""
    bodies = taken_back()
    made = record(*bodies)
    revision = made.state.outcome_revision - 1
    assert WaitKind.LOOKING in waits(step(bodies, ended(), revision=revision))


def test_openings_of_two_permits_are_both_taken_back() -> None:
    """Answered or not, every permit ever committed."""
    bodies: list[Body] = [*opened(Done()), Lost("o1", at(200)), withdraw(3), replied(3, WON)]
    second = replace(PERMIT, number=2)
    bodies += [sighted(300, gated()), opening(4, permit=second), replied(4, Done())]
    bodies += [sighted(400, ended("o1", EXIT_1)), Concluded(SUCCEEDED)]
    taken = step(bodies, ended("o1", EXIT_1))
    assert isinstance(taken, Send)
    assert taken.body.intent == Withdraw("o1", second)


def test_nothing_is_launched_after_an_outcome() -> None:
    """Whatever the record lacks: no attempt, no choice, no opening [cancel-final]."""
    launching = {StepName.AUTHORIZE, StepName.ATTEMPT, StepName.CHOOSE, StepName.OPEN}
    histories: list[list[Body]] = [[], launched()[:1], launched()[:2], launched(), chosen()]
    for bodies in histories:
        for shown in ((), (gated(),), (running(),)):
            taken = step([*bodies, CANCEL], *shown)
            assert isinstance(taken, Send)
            assert taken.name not in launching
