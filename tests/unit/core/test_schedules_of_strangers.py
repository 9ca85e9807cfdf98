"""More bad schedules: twins, strangers, silence, and what comes after it is all over."""

from __future__ import annotations

import pytest

from airflow_dispatch.core.causes import CauseKind
from airflow_dispatch.core.commits import Cancelled, Concluded
from airflow_dispatch.core.record import Outcome, OutcomeState, Phase, Refused, Unclear
from airflow_dispatch.core.steps import Rest, Send, WaitKind
from tests.unit.core import building
from tests.unit.core.building import EXIT_1
from tests.unit.core.stage import (
    Stage,
    Supervisor,
    canonical,
    outcome_of,
    running,
    tag_of,
    waits,
)


def test_authorized_only_of_two_twins_one_runs() -> None:
    """A call that lands twice makes two objects of one attempt: one is retired and stopped."""
    stage = Stage(permits=False)
    stage.begin()
    one = Supervisor(stage)
    one.move()
    start = one.until("attempt")
    stage.land(start)
    one.hear(start, stage.land(start))
    assert waits(one.run()) == [WaitKind.RUNNING]
    assert stage.going_on() == ["g1o1"]
    assert stage.things["g1o2"].phase is Phase.ENDED
    assert canonical(stage.records[1]) == "g1o1"


def test_authorized_only_a_twin_that_appears_late_is_stopped_unopened() -> None:
    """After the first one was opened: retired on sight."""
    stage = Stage(permits=False)
    stage.begin()
    one = Supervisor(stage)
    one.move()
    start = one.until("attempt")
    one.hear(start, stage.land(start))
    one.run()
    stage.land(start)
    assert waits(one.run()) == [WaitKind.RUNNING]
    assert stage.going_on() == ["g1o1"]
    assert stage.things["g1o2"].phase is Phase.ENDED


def test_evidence_only_three_unknown_attempts_are_neither_repeated_nor_forgotten() -> None:
    """No more calls; what lands in time is the launch, what lands later its duplicate."""
    stage = Stage()
    stage.begin()
    one = Supervisor(stage)
    sent = []
    for _ in range(3):
        call = one.until("attempt")
        sent.append(call)
        one.hear(call, Unclear("timeout"))
        stage.now += 1
    assert waits(one.run()) == [WaitKind.ATTEMPTS]
    assert len(stage.records[1].state.calls) == 3
    stage.land(sent[2])
    assert waits(one.run()) == [WaitKind.RUNNING]
    stage.land(sent[0])
    assert waits(one.run()) == [WaitKind.RUNNING]
    assert stage.going_on() == [canonical(stage.records[1])]


def test_nothing_forgotten_three_unknown_attempts_fail_once_none_can_land() -> None:
    """Closed one by one by their bounds, then the launch has failed and settles."""
    stage = Stage()
    stage.begin()
    one = Supervisor(stage)
    for _ in range(3):
        one.hear(one.until("attempt"), Unclear("timeout"))
        stage.now += 1
    stage.now += 60
    assert isinstance(one.run(), Rest)
    outcome = stage.records[1].state.outcome
    assert outcome is not None
    assert outcome.cause is not None
    assert outcome.cause.kind is CauseKind.LAUNCH_FAILED


def test_nothing_forgotten_what_lands_after_settlement_is_cleaned_up_again() -> None:
    """A cancelled job of which nothing was known; then something of it is there after all."""
    stage = Stage()
    stage.begin()
    one = Supervisor(stage)
    one.move()
    start = one.until("attempt")
    stage.commit(Cancelled("stop it"))
    stage.now += 60
    assert isinstance(one.run(), Rest)
    stage.things["late"] = stage.put(building.mark(1, tag=tag_of(start)))
    assert isinstance(Supervisor(stage).run(), Rest)
    assert all(thing.phase is Phase.ENDED for thing in stage.things.values())
    assert stage.records[1].state.settled_revision


def test_nothing_forgotten_a_foreign_object_blocks_and_is_not_touched() -> None:
    """The gate stays shut beside it, nobody stops it, and settling waits for a person."""
    stage = Stage()
    stage.begin()
    one = Supervisor(stage)
    one.reach("choose")
    stranger = stage.put(building.mark(1, tag="a tag that nobody committed"))
    assert waits(one.run()) == [WaitKind.FOREIGN]
    assert stranger.phase is Phase.GATED
    stage.commit(Concluded(Outcome(OutcomeState.FAILED, cause=EXIT_1)))
    assert WaitKind.FOREIGN in waits(one.run())
    assert stranger.phase is Phase.GATED


def test_cancel_final_a_cancel_stops_foreign_objects_too() -> None:
    """By the mark; ended, it blocks no longer."""
    stage = Stage()
    stage.begin()
    one = Supervisor(stage)
    one.reach("choose")
    stranger = stage.put(building.mark(1, tag="a tag that nobody committed"))
    stage.commit(Cancelled("stop it"))
    assert isinstance(one.run(), Rest)
    assert stranger.phase is Phase.ENDED


def test_evidence_only_a_judgement_is_undone_by_what_is_shown() -> None:
    """Lost by one Find, shown by the next: it goes on, and its success is its own."""
    stage, first = running(permits=False)
    away = stage.forget("g1o1")
    assert waits(first.run()) == [WaitKind.LOST]
    stage.now += 5
    stage.things["g1o1"] = away
    assert waits(first.run()) == [WaitKind.RUNNING]
    stage.end("g1o1")
    assert isinstance(first.run(), Rest)
    assert stage.records[1].state.outcome == outcome_of("g1o1")


def test_no_lock_needed_two_supervisors_in_turns_launch_one_run() -> None:
    """Every pass by another one than the last, both with looks that are one pass old."""
    stage = Stage(permits=False)
    stage.begin()
    pair = [Supervisor(stage), Supervisor(stage)]
    for number in range(40):
        one = pair[number % 2]
        if one.view is not None and one.file():
            taken = one.decide()
            if isinstance(taken, Send):
                sent = one.in_hand(taken)
                if one.may_send(sent):
                    one.hear(sent, stage.land(sent))
        one.look()
        stage.now += 1
    assert len(stage.going_on()) == 1
    assert len(stage.records[1].state.submissions) == 1


def test_evidence_only_a_refusal_for_good_after_an_unknown_attempt_still_accounts_for_it() -> None:
    """The launch is rejected; what the first call may have made is waited for all the same."""
    stage = Stage()
    stage.begin()
    one = Supervisor(stage)
    one.move()
    first = one.until("attempt")
    one.hear(first, Unclear("timeout"))
    stage.now += 1
    second = one.until("attempt")
    one.hear(second, Refused("no such account", permanent=True))
    assert waits(one.run()) == [WaitKind.CALL]
    stage.land(first)
    assert waits(one.run()) == [WaitKind.CALL]
    assert stage.things["g1o1"].phase is Phase.ENDED
    stage.now += 60
    assert isinstance(one.run(), Rest)


def test_the_stage_itself_sees_an_overlap() -> None:
    """A monitor that can see nothing would make every schedule pass."""
    stage, _ = running()
    stage.things["x"] = stage.put(building.mark(2))
    stage.things["x"].begun = True
    with pytest.raises(AssertionError, match="two runs at once"):
        stage.check()
