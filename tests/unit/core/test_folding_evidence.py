"""Folding evidence: facts are joined, never overwritten; late ones count as much as early ones."""

from __future__ import annotations

import pytest

from airflow_dispatch.core.commits import Body, Concluded, Gone, Lost, Quieted, Settled, Sighted
from airflow_dispatch.core.record import (
    Created,
    Decided,
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
from airflow_dispatch.errors import InvariantBroken
from tests.unit.core import building
from tests.unit.core.building import (
    EXIT_1,
    STARTED,
    SUCCEEDED,
    WON,
    also,
    at,
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
    start,
    stop_job,
    withdraw,
)


def known(made: Record, wanted: str = "o1") -> ObjectState:
    """The object as the record knows it."""
    found = made.state.object(wanted)
    assert found is not None
    return found


# --- sightings ------------------------------------------------------------------------------------


def test_a_sighting_makes_an_object_known() -> None:
    """Also one whose start was never answered; the revision says from when on it can be absent."""
    made = record(*launched()[:2], sighted(5, gated()))
    assert known(made).first_revision == made.revision
    assert (known(made).phase, known(made).shown_at) == (Phase.GATED, at(5))
    assert made.state.knows(known(made).mark)


def test_a_foreign_object_is_known_too() -> None:
    """It bears our mark, of an attempt that nobody made: it is followed, and never ours."""
    made = record(*launched(), sighted(5, foreign()))
    assert not made.state.knows(known(made, "f1").mark)


def test_objects_stand_in_the_order_of_their_marks() -> None:
    """Whatever the order in which they were seen; nothing that decides depends on arrival."""
    shown = sighted(5, gated("o2"), gated("o1b"), gated("o1"), foreign("a1"))
    made = record(*launched(2)[:2], shown)
    assert [o.id for o in made.state.objects] == ["a1", "o1", "o1b", "o2"]


def test_the_newer_find_tells_the_phase() -> None:
    """An older Find that is filed later does not bring an earlier phase back."""
    made = record(*launched(), sighted(20, running()), sighted(10, gated()))
    assert (known(made).phase, known(made).shown_at) == (Phase.RUNNING, at(20))


def test_incarnations_are_joined() -> None:
    """Start counts that only one Find showed stay; facts of one start add up."""
    one = sight("o1", Phase.RUNNING, Incarnation(0, started=True, host="n1"))
    two = sight("o1", Phase.RUNNING, Incarnation(1, started=True, started_at=at(9)))
    three = sight("o1", Phase.ENDED, Incarnation(0, verdict=Verdict(Source.SCHEDULER, EXIT_1)))
    made = record(*launched(), sighted(5, one), sighted(9, two), sighted(7, three))
    first, second = known(made).incarnations
    assert (first.started, first.host, first.verdict) == (
        True,
        "n1",
        Verdict(Source.SCHEDULER, EXIT_1),
    )
    assert second == Incarnation(1, started=True, started_at=at(9))


def test_a_verdict_and_idleness_are_two_facts() -> None:
    """Ended takes both, of every incarnation [no-overlap]."""
    verdict = Verdict(Source.SCHEDULER, None)
    for facts, over in [
        ({"verdict": verdict}, False),
        ({"idle": True}, False),
        ({"verdict": verdict, "idle": True}, True),
    ]:
        shown = sight("o1", Phase.ENDED, Incarnation(0, **facts))  # type: ignore[arg-type]  # by name
        assert known(record(*launched(), sighted(5, shown))).ended is over
    both = sight("o1", Phase.RUNNING, Incarnation(0, verdict=verdict, idle=True), Incarnation(1))
    assert not known(record(*launched(), sighted(5, both))).ended
    assert not known(record(*launched())).ended


def test_an_exit_record_outranks_the_scheduler() -> None:
    """In whatever order they come; among equals failure outranks success."""
    scheduler = ended("o1", building.EXIT_1, source=Source.SCHEDULER)
    exit_record = ended("o1", source=Source.EXIT_RECORD)
    for order in ((scheduler, exit_record), (exit_record, scheduler)):
        made = record(*launched(), sighted(5, order[0]), sighted(6, order[1]))
        verdict = known(made).verdict
        assert verdict is not None
        assert verdict.source is Source.EXIT_RECORD
        assert verdict.succeeded
    accounting = (ended(source=Source.ACCOUNTING), ended(cause=EXIT_1, source=Source.ACCOUNTING))
    verdict = known(record(*launched(), sighted(5, *accounting))).verdict
    assert verdict is not None
    assert not verdict.succeeded


def test_only_facts_about_one_start_can_be_joined() -> None:
    """Two start counts are two incarnations."""
    with pytest.raises(InvariantBroken, match="one start"):
        Incarnation(0).join(Incarnation(1))


def test_a_sight_shows_each_incarnation_once_and_in_order() -> None:
    """What an adapter shows is checked where it is built."""
    for counts in ((0, 0), (1, 0)):
        with pytest.raises(InvariantBroken, match="once each, in order"):
            sight("o1", Phase.RUNNING, *(Incarnation(count) for count in counts))


def test_what_is_found_again_is_neither_gone_nor_lost() -> None:
    """By a Find that began after the judging one; one that began before it says nothing new."""
    for body in (Gone("o1", at(9)), Lost("o1", at(9))):
        judged = [*launched(), body]
        assert not _judged(record(*judged, sighted(10, gated())))
        assert _judged(record(*judged, sighted(8, gated())))
        assert _judged(record(*judged, sighted(9, gated())))


def _judged(made: Record) -> bool:
    return known(made).gone or known(made).lost


def test_what_turns_out_to_have_started_was_not_gone() -> None:
    """An older Find, filed late, showed it running: whether it still runs is not known.

    [no-overlap] [evidence-only]
    """
    made = record(*launched(), Gone("o1", at(9)), sighted(5, running()))
    assert not known(made).gone
    assert known(made).started


# --- replies --------------------------------------------------------------------------------------


def test_a_creation_without_the_gate_is_kept() -> None:
    """The gate is read back, and what was born open must never run."""
    made = record(*launched()[:2], replied(1, Created("o1", gated=False)))
    assert known(made).born_open
    assert known(also(made, [replied(1, Created("o1"))])).born_open


@pytest.mark.parametrize(
    ("one", "other", "kept"),
    [
        (Unclear("timeout"), Created("o1"), Created("o1")),
        (Unclear("timeout"), Refused("no", permanent=True), Refused("no", permanent=True)),
        (Refused("no", permanent=False), Created("o1"), Created("o1")),
        (NotSent("outcome"), Unclear("timeout"), Unclear("timeout")),
        (NotSent("outcome"), Created("o1"), Created("o1")),
    ],
)
def test_the_clearer_reply_is_kept(one: Reply, other: Reply, kept: Reply) -> None:
    """In either order: an answer outranks none, and what was done outranks a refusal."""
    base = launched()[:2]
    for order in ((one, other), (other, one)):
        call = record(*base, *(replied(1, reply) for reply in order)).state.call(1)
        assert call is not None
        assert call.reply == kept


def test_a_stop_that_is_taken_in_the_end_was_not_refused() -> None:
    """A stop is carried out again and again: a first refusal must not hide the later receipt."""
    refused, done = replied(2, Refused("busy", permanent=False)), replied(2, Done())
    call = record(*launched(), stop_job(2, 1), refused, done).state.call(2)
    assert call is not None
    assert call.reply == Done()


def test_a_reply_has_the_revision_that_filed_it() -> None:
    """Finds are compared with it; the same reply again does not move it."""
    made = record(*launched()[:2], replied(1, Created("o1")))
    call = made.state.call(1)
    assert call is not None
    assert call.reply_revision == made.revision
    again = also(made, [replied(1, Created("o1")), replied(1, Unclear("late"))])
    assert again.state == made.state


def test_a_late_reply_to_a_repeated_call_says_nothing_more() -> None:
    """Its call was dropped because it was over: nothing changes, nothing breaks."""
    base = record(*opened(Unclear("timeout")), building.opening(3, deadline=120))
    assert also(base, [replied(2, Done())]).state == base.state


def test_a_reply_to_a_call_that_nobody_made_is_refused() -> None:
    """It belongs to another record, or to a commit that never landed."""
    with pytest.raises(InvariantBroken, match="never made"):
        record(*launched(), replied(2, Done()))


def test_a_withdrawal_that_came_too_late_proves_the_start() -> None:
    """The register says who was first, also where no Find ever showed it."""
    made = record(*opened(Done()), withdraw(3), replied(3, STARTED))
    assert known(made).incarnations == (Incarnation(0, started=True),)
    assert known(record(*opened(Done()), withdraw(3), replied(3, WON))).incarnations == ()


# --- after the quiet ------------------------------------------------------------------------------


def quiet() -> list[Body]:
    """Succeeded, quiet by the Find of second 200, settled."""
    return [
        *opened(Done()),
        sighted(110, ended()),
        Concluded(SUCCEEDED),
        withdraw(3),
        replied(3, STARTED),
        Quieted(at(200)),
        Settled(),
    ]


def _stirred(made: Record) -> bool:
    return made.state.quiet_at is None and made.state.settled_revision == 0


@pytest.mark.parametrize(
    "late",
    [
        sighted(201, gated("o1b")),
        sighted(150, gated("o1b")),
        sighted(150, ended("o1b", EXIT_1)),
        sighted(201, running()),
        sighted(201, foreign()),
        replied(1, Created("o1c")),
        sighted(150, running("o1", count=1)),
    ],
)
def test_what_a_quiet_record_did_not_know_puts_it_back_to_cleaning(late: Body) -> None:
    """A new object or start, however late, and anything alive after the quiet.

    The outcome stands [nothing-forgotten].
    """
    made = also(record(*quiet()), [late])
    assert _stirred(made)
    assert made.state.outcome == SUCCEEDED


@pytest.mark.parametrize(
    "late",
    [
        sighted(201, ended()),
        sighted(150, running()),
        sighted(199, ended()),
        replied(2, Unclear("late")),
        replied(3, STARTED),
    ],
)
def test_old_news_leaves_a_quiet_record_alone(late: Sighted) -> None:
    """What was known, or what the Find behind the quiet has outlived, changes nothing of it."""
    assert not _stirred(also(record(*quiet()), [late]))


def test_a_start_that_a_quiet_record_did_not_know_of_stirs_it() -> None:
    """Judged gone and quiet; then an older Find turns up that showed it running."""
    bodies = [
        *chosen(),
        Gone("o1", at(9)),
        Concluded(building.FAILED),
        Quieted(at(20)),
        Settled(),
    ]
    assert not _stirred(record(*bodies))
    assert _stirred(record(*bodies, sighted(8, running())))


def test_an_answer_decides_of_each_start() -> None:
    """Only what it says has started becomes a fact."""
    made = record(*opened(), withdraw(3), replied(3, Decided(((0, False), (1, True)))))
    assert known(made).incarnations == (Incarnation(1, started=True),)


def test_the_properties_of_an_object_that_nobody_has_shown() -> None:
    """No start, no incarnation, no verdict: nothing is assumed."""
    fresh = known(record(*launched()))
    assert (fresh.started, fresh.latest, fresh.verdict, fresh.shown_at) == (False, None, None, None)
    assert record(*launched(), start(2, 2)).state.call(9) is None
