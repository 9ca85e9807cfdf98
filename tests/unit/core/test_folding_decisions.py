"""Folding decisions and acts: what each body changes, and each history that no store may keep."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_dispatch.core import folding
from airflow_dispatch.core.commits import (
    Adopted,
    Authorized,
    Body,
    Cancelled,
    Chosen,
    Concluded,
    Gone,
    Lost,
    NeverLanded,
    OpenedOutside,
    Quieted,
    Retired,
    Settled,
)
from airflow_dispatch.core.record import (
    Created,
    Done,
    NotSent,
    Outcome,
    OutcomeState,
    Permit,
    Record,
    Start,
    Unclear,
)
from airflow_dispatch.errors import InvariantBroken
from tests.unit.core import building
from tests.unit.core.building import (
    BINDING,
    PERMIT,
    STARTED,
    SUCCEEDED,
    WON,
    also,
    at,
    chosen,
    foreign,
    launched,
    opened,
    opening,
    record,
    replied,
    running,
    sighted,
    start,
    stop,
    stop_job,
    withdraw,
)

# --- the beginning --------------------------------------------------------------------------------


def test_a_record_begins_with_its_job() -> None:
    """The first commit is revision 1 and holds the job, which the state only refers to."""
    made = record(first=building.begun(generation=3, predecessor=2))
    assert (made.revision, made.job) == (1, building.JOB)
    state = made.state
    assert (state.key, state.predecessor) == (building.key(3), 2)
    assert (state.cluster, state.fingerprint) == ("local", building.FINGERPRINT)
    assert (state.outcome, state.submissions, state.objects, state.calls) == (None, (), (), ())


def test_a_record_begins_with_nothing_else() -> None:
    """Any other first commit is a defect, and so is a second beginning."""
    with pytest.raises(InvariantBroken, match="begins with its job"):
        folding.begin(building.commit(Authorized(1)))
    with pytest.raises(InvariantBroken, match="begins once"):
        record(building.begun())


@pytest.mark.parametrize("predecessor", [2, 3])
def test_a_predecessor_is_an_earlier_generation(predecessor: int) -> None:
    """Neither itself nor a later one."""
    with pytest.raises(InvariantBroken, match="earlier generation"):
        building.begun(generation=2, predecessor=predecessor)


def test_each_commit_is_one_revision_and_leaves_the_job_alone() -> None:
    """Revisions count commits, those that change nothing included."""
    base = record(*chosen())
    later = also(base, [Adopted(BINDING)])
    assert later == replace(base, revision=base.revision + 1)


# --- launching ------------------------------------------------------------------------------------


def test_submissions_are_numbered_without_gaps() -> None:
    """Authorizing keeps the revision, which gates compare with the Find's."""
    made = record(Authorized(1), Authorized(2))
    assert [(s.number, s.revision) for s in made.state.submissions] == [(1, 2), (2, 3)]
    assert made.state.newest == made.state.submissions[1]
    for wrong in (0, 1, 3):
        with pytest.raises(InvariantBroken, match="without gaps"):
            record(Authorized(1), Authorized(wrong))


def test_an_attempt_is_on_record_before_its_call() -> None:
    """The attempt and its call come with one commit: tag, deadline and revision are known."""
    made = record(Authorized(1), start(1)).state
    (attempt,) = made.submissions[0].attempts
    assert (attempt.number, attempt.tag, attempt.call) == (1, building.mark().tag, 1)
    call = made.call(1)
    assert call is not None
    assert (call.intent, call.revision) == (Start(1, 1, attempt.tag), 3)
    assert (call.deadline, call.reply, made.calls_made) == (at(30), None, 1)


def test_an_opening_records_its_permit_once() -> None:
    """The record knows every permit that can exist; repeating the opening adds none."""
    made = record(*opened(Unclear("timeout")), opening(3, deadline=90)).state
    assert made.permits == (("o1", PERMIT),)
    assert [call.number for call in made.calls] == [1, 3]


@pytest.mark.parametrize(
    ("history", "body", "message"),
    [
        ([], start(1), "newest submission"),
        ([Authorized(1)], start(2), "calls are numbered"),
        ([Authorized(1)], start(1, 2), "attempts are numbered"),
        ([Authorized(1), Authorized(2)], start(1), "newest submission"),
        (launched(), start(2), "attempts are numbered"),
        (launched(), opening(2), "canonical object of the newest"),
        ([*launched(2), Chosen(1, "o1")], opening(3, "o2"), "canonical object of the newest"),
        ([*chosen(), Authorized(2)], opening(2), "canonical object of the newest"),
        (chosen(), opening(2, permit=Permit(2, 0, 0)), "permits of an object are numbered"),
        (opened(), opening(3, permit=Permit(2, 0, 0)), "decided before the next"),
        (opened(), opening(3, permit=Permit(1, 0, 1)), "permits of an object are numbered"),
        (
            [*opened(), withdraw(3), replied(3, STARTED)],
            opening(4, permit=Permit(2, 0, 0)),
            "never covers a start that was seen",
        ),
    ],
)
def test_a_launch_that_may_not_follow_is_refused(
    history: list[Body], body: Body, message: str
) -> None:
    """Wrong numbers, superseded submissions, duplicates and permits too many break an invariant."""
    base = record(*history)
    with pytest.raises(InvariantBroken, match=message):
        also(base, [body])


def test_a_second_permit_follows_a_decided_one() -> None:
    """Once the first one is withdrawn for ever, another may be committed for the same start."""
    made = record(*opened(), withdraw(3), replied(3, WON), opening(4, permit=Permit(2, 0, 0)))
    assert made.state.permits == (("o1", PERMIT), ("o1", Permit(2, 0, 0)))


@pytest.mark.parametrize("body", [Authorized(2), start(2, 2), opening(2)])
def test_nothing_is_launched_after_an_outcome(body: Body) -> None:
    """[cancel-final] holds in the fold itself, whoever decides wrongly."""
    base = record(*chosen(), Cancelled("stop it"))
    with pytest.raises(InvariantBroken, match="after an outcome"):
        also(base, [body])


@pytest.mark.parametrize("body", [stop(2, "o1"), stop_job(2, 1), withdraw(2)])
def test_cleaning_up_goes_on_after_an_outcome(body: Body) -> None:
    """Stops and withdraws may always be committed; none has a deadline."""
    made = also(record(*chosen(), Cancelled("stop it")), [body])
    assert made.state.calls[-1].number == 2
    assert made.state.calls[-1].deadline is None


# --- the canonical object and the others ----------------------------------------------------------


def test_the_canonical_object_is_chosen_once() -> None:
    """Never recomputed, whatever appears or goes later."""
    made = record(*launched(2), Chosen(1, "o2"))
    assert made.state.submissions[0].canonical == "o2"
    for again in ("o1", "o2"):
        with pytest.raises(InvariantBroken, match="chosen once"):
            also(made, [Chosen(1, again)])


@pytest.mark.parametrize(
    ("history", "body"),
    [
        (launched(), Chosen(1, "unknown")),
        ([*launched(), Retired("o1", "duplicate")], Chosen(1, "o1")),
        ([*launched(), Authorized(2)], Chosen(1, "o1")),
        ([*launched(), Authorized(2)], Chosen(2, "o1")),
        ([*launched(), sighted(5, foreign())], Chosen(1, "f1")),
        ([], Chosen(1, "o1")),
    ],
)
def test_what_must_not_run_is_never_canonical(history: list[Body], body: Body) -> None:
    """Unknown, retired, superseded, another submission's and foreign objects [authorized-only]."""
    with pytest.raises(InvariantBroken):
        also(record(*history), [body])


def test_retirement_is_permanent_and_keeps_its_first_reason() -> None:
    """A second reason does not replace the first."""
    made = record(*launched(), Retired("o1", "superseded"), Retired("o1", "other"))
    known = made.state.object("o1")
    assert known is not None
    assert known.retired == "superseded"


def test_the_canonical_object_is_never_retired() -> None:
    """Somebody decided that it may run; it is stopped where it must not, never retired."""
    with pytest.raises(InvariantBroken, match="canonical"):
        record(*chosen(), Retired("o1", "oops"))


@pytest.mark.parametrize(
    "body",
    [
        Retired("x", "r"),
        Gone("x", at(9)),
        Lost("x", at(9)),
        OpenedOutside("x"),
        opening(1, "x"),
    ],
)
def test_a_decision_about_an_unknown_object_is_refused(body: Body) -> None:
    """Nothing is judged of what the record does not know."""
    with pytest.raises(InvariantBroken, match=r"knows no object x|only the canonical object"):
        record(Authorized(1), body)


def test_taking_over_what_was_opened_outside_is_on_record() -> None:
    """So that it is not judged again by the next pass."""
    known = record(*chosen(), OpenedOutside("o1")).state.object("o1")
    assert known is not None
    assert known.opened_outside


# --- judgements from absence ----------------------------------------------------------------------


def test_never_landed_closes_the_one_attempt() -> None:
    """Its neighbours stay as they are."""
    made = record(Authorized(1), start(1), start(2, 2), NeverLanded(1, 2))
    assert [a.never_landed for a in made.state.submissions[0].attempts] == [False, True]


@pytest.mark.parametrize("body", [NeverLanded(1, 2), NeverLanded(2, 1), NeverLanded(1, 0)])
def test_never_landed_needs_an_attempt(body: NeverLanded) -> None:
    """A judgement about an attempt that nobody made breaks an invariant."""
    with pytest.raises(InvariantBroken, match="knows no attempt"):
        record(Authorized(1), start(1), body)


def test_gone_and_lost_keep_the_find_that_showed_it() -> None:
    """Both hold until a Find that began later shows the object again."""
    gone = record(*launched(), Gone("o1", at(9))).state.object("o1")
    lost = record(*launched(), Lost("o1", at(9))).state.object("o1")
    assert gone is not None
    assert lost is not None
    assert (gone.gone, gone.lost) == (True, False)
    assert (lost.gone, lost.lost) == (False, True)


def test_a_repeated_loss_keeps_its_first_time() -> None:
    """The bounds that resolve it run from the first Find without the object, not from the last."""
    known = record(*launched(), Lost("o1", at(9)), Lost("o1", at(99))).state.object("o1")
    assert known is not None
    assert known.lost_at == at(9)


def test_a_loss_after_it_was_found_again_begins_anew() -> None:
    """Shown in between, it may have started in between."""
    bodies = [*launched(), Lost("o1", at(9)), sighted(20, running()), Lost("o1", at(99))]
    known = record(*bodies).state.object("o1")
    assert known is not None
    assert known.lost_at == at(99)


def test_what_started_is_never_judged_gone() -> None:
    """It may have run: at most it is lost [evidence-only]."""
    with pytest.raises(InvariantBroken, match="started"):
        record(*opened(), sighted(80, running()), Gone("o1", at(99)))


# --- outcome, quiet, settled ----------------------------------------------------------------------


def test_an_outcome_is_committed_once() -> None:
    """With the revision that Finds are compared with, and the time for people."""
    made = record(*chosen(), Concluded(SUCCEEDED))
    assert made.state.outcome == SUCCEEDED
    assert made.state.outcome_revision == made.revision
    assert made.state.outcome_at == building.NOON
    with pytest.raises(InvariantBroken, match="committed once"):
        also(made, [Concluded(building.FAILED)])


def test_a_cancel_gives_the_outcome_with_actor_and_reason() -> None:
    """Whoever cancelled is named."""
    made = folding.apply(
        record(*chosen()), building.commit(Cancelled("wrong data"), actor="person:ada")
    )
    assert made.state.outcome == building.CANCELLED


def test_a_cancel_after_an_outcome_changes_nothing() -> None:
    """What has ended keeps its outcome."""
    base = record(*chosen(), Concluded(SUCCEEDED))
    assert also(base, [Cancelled("too late")]).state == base.state


def test_a_cancel_drops_no_committed_call() -> None:
    """Sent or not: nobody can know, so it stays on record until it is over [nothing-forgotten]."""
    made = record(*opened(), Cancelled("stop it"))
    assert [call.number for call in made.state.calls] == [1, 2]
    assert made.state.permits == (("o1", PERMIT),)


def test_quiet_needs_an_outcome_and_settled_needs_quiet() -> None:
    """In that order, and never without one another."""
    with pytest.raises(InvariantBroken, match="with an outcome"):
        record(*chosen(), Quieted(at(9)))
    with pytest.raises(InvariantBroken, match="quiet before"):
        record(*chosen(), Concluded(SUCCEEDED), Settled())
    made = record(*chosen(), Concluded(SUCCEEDED), Quieted(at(9)), Settled())
    assert made.state.quiet_at == at(9)
    assert made.state.settled_revision == made.revision


def test_adoption_changes_the_binding_only() -> None:
    """Another try wants this run; the run does not notice."""
    base, binding = record(*opened()), replace(BINDING, ti_id="ti-2", try_number=2)
    made = also(base, [Adopted(binding)])
    assert made.state == replace(base.state, binding=binding)


# --- repetitions ----------------------------------------------------------------------------------


def test_a_repeated_call_replaces_what_says_nothing_more() -> None:
    """Opens and withdraws of one permit, and rounds of stopping, are each kept once."""
    bodies = [
        *opened(Done()),
        opening(3, deadline=120),
        withdraw(4),
        replied(4, Unclear("timeout")),
        withdraw(5),
        Cancelled("stop it"),
        stop_job(6, 1),
        stop_job(7, 1),
        stop_job(8, 2),
    ]
    made = record(*bodies).state
    assert [call.number for call in made.calls] == [1, 3, 5, 7, 8]
    assert made.calls_made == 8


def test_a_dropped_opening_is_not_forgotten() -> None:
    """Though only its repetition, not sent, is on record: the first one may have landed."""
    made = record(*opened(Unclear("timeout")), opening(3, deadline=120), replied(3, NotSent("x")))
    known = made.state.object("o1")
    assert known is not None
    assert known.may_have_opened


def test_an_opening_that_was_never_sent_is_forgotten() -> None:
    """It could not land, so its repetition makes it say nothing."""
    made = record(*opened(NotSent("x")), opening(3, deadline=120), replied(3, NotSent("x")))
    known = made.state.object("o1")
    assert known is not None
    assert not known.may_have_opened


def test_stops_of_two_objects_and_starts_are_never_dropped() -> None:
    """Only a repetition of the very same call makes one superfluous."""
    bodies = [*launched(2), stop(3, "o1"), stop(4, "o2"), stop(5, "o1")]
    assert len(record(*bodies).state.calls) == 5


# --- values that cannot be built ------------------------------------------------------------------


@pytest.mark.parametrize(("number", "first", "last"), [(0, 0, 0), (1, -1, 0), (1, 2, 1)])
def test_a_permit_covers_something(number: int, first: int, last: int) -> None:
    """Numbers from 1, start counts from 0, first not after last."""
    with pytest.raises(InvariantBroken, match="not a permit"):
        Permit(number, first, last)


def test_a_cause_goes_with_failed_only() -> None:
    """Failed needs one; success and a cancel have none."""
    for state in (OutcomeState.SUCCEEDED, OutcomeState.CANCELLED):
        with pytest.raises(InvariantBroken, match="cause goes with failed"):
            Outcome(state, cause=building.EXIT_1)
    with pytest.raises(InvariantBroken, match="cause goes with failed"):
        Outcome(OutcomeState.FAILED)


def test_outcomes_read_as_sentences() -> None:
    """As messages show them."""
    assert str(SUCCEEDED) == "succeeded"
    assert str(building.FAILED) == "failed: exit(1)"
    assert str(building.CANCELLED) == "cancelled by person:ada: wrong data"


def test_a_record_has_a_first_commit() -> None:
    """Revision 0 does not exist."""
    with pytest.raises(InvariantBroken, match="first commit"):
        Record(0, record().state, building.JOB)


def test_a_reason_of_a_cancel_is_bounded() -> None:
    """Whoever takes it in cuts it."""
    with pytest.raises(InvariantBroken, match="cut by whoever takes it in"):
        Cancelled("x" * 2_001)


def test_times_of_people_are_never_compared() -> None:
    """A commit stamped years ago by a wrong clock folds like any other."""
    late = replace(building.commit(Authorized(1)), at=building.NOON - timedelta(days=9_000))
    assert folding.apply(record(), late) == record(Authorized(1))


def test_a_start_creates_an_object_under_the_mark_of_its_attempt() -> None:
    """The reply names the id; the mark follows from the committed intent."""
    known = record(*launched()).state.object("o1")
    assert known is not None
    assert known.mark == building.mark()
    assert Created("o1").gated
