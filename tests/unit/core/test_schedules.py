"""Bad schedules, each with the rule that stops it.

Found by searching the protocol; each name says which promise the schedule would break. The moves
are made on the stage, the answers are the core's own.
"""

from __future__ import annotations

import pytest

from airflow_dispatch.core import settlement
from airflow_dispatch.core.commits import Authorized, Cancelled
from airflow_dispatch.core.record import (
    Created,
    NotSent,
    Open,
    OutcomeState,
    Permit,
    Phase,
    Source,
    Verdict,
)
from airflow_dispatch.core.steps import Decide, Rest, Send, StepName, Wait, WaitKind
from tests.unit.core import building
from tests.unit.core.building import EXIT_1
from tests.unit.core.stage import (
    Sent,
    Stage,
    Supervisor,
    cleared,
    outcome_of,
    running,
    tag_of,
    waits,
)

LIMIT = 600 + 10 + 5 + 2
"""After this long a lost run has reached its own time limit for sure."""


# --- A: a promise would break ---------------------------------------------------------------------


def test_no_overlap_an_empty_looking_earlier_try_is_not_over() -> None:
    """A1, D2: nothing of try 1 is known alive, and its stalled supervisor launches it later."""
    stage = Stage()
    stage.begin()
    stalled = Supervisor(stage)
    stalled.move()  # Authorized; then it stalls with its attempt committed and in hand.
    attempt = stalled.until("attempt")
    stage.begin(2, predecessor=1)
    second = Supervisor(stage, 2)
    assert waits(second.run()) == [WaitKind.PREDECESSOR], "try 1 has no outcome yet"
    stage.commit(Cancelled("the task was cleared"))
    assert waits(second.run()) == [WaitKind.PREDECESSOR], "its start may still land"
    stalled.hear(attempt, stage.land(attempt))
    assert WaitKind.PREDECESSOR in waits(second.run()), "and now it has"
    assert isinstance(Supervisor(stage).run(), Rest)
    assert waits(second.run()) == [WaitKind.RUNNING]


def test_no_overlap_a_third_try_waits_for_the_first() -> None:
    """A2: the second one was cancelled empty and must not settle past a first one that runs."""
    stage, _ = running()
    second = cleared(stage)
    third = cleared(stage, generation=3)
    assert waits(second.run()) == [WaitKind.PREDECESSOR]
    assert stage.records[2].state.settled_revision == 0
    assert WaitKind.PREDECESSOR in waits(third.run())
    Supervisor(stage).run()
    second.run()
    assert waits(third.run()) == [WaitKind.RUNNING]
    assert stage.going_on() == ["g3o1"]


def test_authorized_only_a_late_object_of_a_superseded_launch_never_runs() -> None:
    """A3: it has no canonical object, and there is no earlier launch that it would wait for."""
    stage = Stage(permits=False)
    stage.begin()
    one = Supervisor(stage)
    one.move()
    late = one.until("attempt")
    stage.commit(Authorized(2))
    stage.now += 40
    assert waits(one.run()) == [WaitKind.RUNNING]
    assert stage.going_on() == ["g1o1"]
    one.hear(late, Created(stage.put(building.mark(1, tag=tag_of(late))).id))
    assert waits(one.run()) == [WaitKind.RUNNING]
    assert stage.things["g1o2"].phase is Phase.ENDED
    known = stage.records[1].state.object("g1o2")
    assert known is not None
    assert known.retired == "submission 1 was superseded"


def test_evidence_only_an_old_look_judges_nothing_that_came_after_it() -> None:
    """A4: what was created and opened meanwhile is known, not shown, and not gone."""
    stage = Stage()
    stage.begin()
    slow, quick = Supervisor(stage), Supervisor(stage)
    slow.move()
    slow.look()  # Shows nothing; then it stalls.
    quick.run()
    assert stage.going_on() == ["g1o1"]
    assert slow.record is not None
    slow.record = stage.records[1]  # Even with the newest record in hand:
    taken = slow.answer()
    assert isinstance(taken, Wait), taken
    state = stage.records[1].state
    known = state.object("g1o1")
    assert known is not None
    assert slow.view is not None
    assert not settlement.absent(known, slow.view)


def test_no_lock_needed_a_decision_of_an_old_revision_is_refused() -> None:
    """A4, B7: two supervisors; whoever comes second has to read and look again."""
    stage = Stage()
    stage.begin()
    one, other = Supervisor(stage), Supervisor(stage)
    one.look()
    other.look()
    assert isinstance(one.decide(), Decide)
    assert other.decide() is None
    assert len(stage.records[1].state.submissions) == 1


@pytest.mark.parametrize("name", ["attempt", "open"])
def test_nothing_forgotten_a_cancel_drops_no_committed_call(name: str) -> None:
    """A5: it stays on record until it is over, because nobody knows whether it was sent."""
    stage = Stage()
    stage.begin()
    stalled = Supervisor(stage)
    sent = stalled.until(name)
    stage.commit(Cancelled("stop it"))
    after = Supervisor(stage)
    while WaitKind.CALL not in waits(after.run()):
        stage.now += 1
        assert stage.now < 100
    assert stage.records[1].state.quiet_at is None
    stage.land(sent)  # It was sent all the same, within its deadline.
    assert isinstance(Supervisor(stage).run(), Wait)
    stage.now += 60
    assert isinstance(Supervisor(stage).run(), Rest)
    assert stage.going_on() == []


def test_cancel_final_no_opening_leaves_a_read_that_saw_the_cancel() -> None:
    """Committed before the cancel, read again after it: filed as not sent, and over at once."""
    stage = Stage()
    stage.begin()
    one = Supervisor(stage)
    opening = one.until("open")
    stage.commit(Cancelled("stop it"))
    assert not one.may_send(opening)
    call = stage.records[1].state.call(opening.call.number)
    assert call is not None
    assert isinstance(call.reply, NotSent)
    assert isinstance(one.run(), Rest)


def test_cancel_final_an_opening_that_lands_after_the_cancel_is_stopped() -> None:
    """Sent from a read just before it: the run is stopped before the record settles."""
    stage = Stage()
    stage.begin()
    one = Supervisor(stage)
    opening = one.until("open")
    assert one.may_send(opening)
    stage.commit(Cancelled("stop it"))
    stage.land(opening)
    assert stage.going_on() == ["g1o1"]
    assert waits(one.run()) == [WaitKind.CALL], "unanswered: it might land again"
    assert stage.going_on() == []
    stage.now += 60
    assert isinstance(one.run(), Rest)


def test_no_overlap_a_verdict_is_not_silence() -> None:
    """A7: the scheduler calls it ended while its processes still stop; the next try waits."""
    stage, first = running()
    stage.end("g1o1", verdict=Verdict(Source.SCHEDULER, EXIT_1), idle=False)
    first.move()
    outcome = stage.records[1].state.outcome
    assert outcome is not None
    assert outcome.state is OutcomeState.FAILED
    stage.begin(2, predecessor=1)
    second = Supervisor(stage, 2)
    assert WaitKind.PREDECESSOR in waits(second.run())
    assert WaitKind.STOPPING in waits(first.run())
    stage.things["g1o1"].idle = True
    assert isinstance(first.run(), Rest)
    assert waits(second.run()) == [WaitKind.RUNNING]


def test_authorized_only_a_stale_opening_of_what_came_back_starts_nothing() -> None:
    """A9: cancelled while held, seen ended, settled; a crash brings it back; the call lands late.

    The permit was taken back before the Find that settlement rests on.
    """
    stage = Stage()
    stage.begin()
    one = Supervisor(stage)
    opening = one.until("open")
    stage.end("g1o1", verdict=Verdict(Source.SCHEDULER, EXIT_1))
    assert waits(one.run()) == [WaitKind.CALL], "not settled while the opening may land"
    stage.now += 60
    assert isinstance(one.run(), Rest)
    back = stage.things["g1o1"]
    back.phase, back.idle, back.verdict = Phase.GATED, False, None
    stage._opened("g1o1", _permit(opening))
    assert not back.begun
    assert back.phase is Phase.ENDED


def _permit(sent: Sent) -> Permit:
    assert isinstance(sent.call.intent, Open)
    return sent.call.intent.permit


def test_no_overlap_what_came_back_to_its_gate_is_not_opened_again() -> None:
    """A10, A16: started, rolled back to its gate, without permits: a second start would run."""
    stage, first = running(permits=False)
    rolled_back = stage.things["g1o1"]
    rolled_back.phase = Phase.GATED
    stage.now += 120
    shown = first.move()
    assert isinstance(shown, Send)
    assert shown.name is StepName.STOP


@pytest.mark.parametrize("landed", [True, False])
def test_no_state_outside_an_opening_is_on_record_before_it_is_sent(landed: bool) -> None:
    """A16: a crash right there; the next supervisor knows that it may have been sent."""
    stage = Stage()
    stage.begin()
    opening = Supervisor(stage).until("open")
    if landed:
        stage.land(opening)
    heir = Supervisor(stage)
    expected = WaitKind.RUNNING if landed else WaitKind.CALL
    assert waits(heir.run()) == [expected]
    stage.now += 60
    assert waits(heir.run()) == [WaitKind.RUNNING]
    permits = [permit for _, permit in stage.records[1].state.permits]
    assert permits == [_permit(opening)], "the repetition has the same permit"


# --- B: it would never settle ---------------------------------------------------------------------


def test_nothing_forgotten_a_lost_run_is_resolved_by_its_limit() -> None:
    """B1, D1: opened, then in no queue any more, its processes alive; stops answer everything."""
    stage, first = running(permits=False)
    alive = stage.forget("g1o1")
    stage.commit(Cancelled("stop it"))
    assert waits(first.run()) == [WaitKind.LOST]
    second = cleared_behind(stage)
    assert waits(second.run()) == [WaitKind.PREDECESSOR]
    stage.now += LIMIT
    alive.idle = True  # The wrapper has ended it by now.
    assert isinstance(first.run(), Rest)
    assert waits(second.run()) == [WaitKind.RUNNING]


def cleared_behind(stage: Stage) -> Supervisor:
    """The next try of a task whose record is cancelled already."""
    stage.begin(2, predecessor=1)
    return Supervisor(stage, 2)


def test_nothing_forgotten_what_was_never_opened_is_gone_at_once() -> None:
    """B1, D1: no opening was ever committed, so a complete Find without it is enough."""
    stage = Stage(permits=False)
    stage.begin()
    one = Supervisor(stage)
    one.reach("choose")
    stage.forget("g1o1")
    stage.commit(Cancelled("stop it"))
    assert isinstance(one.run(), Rest)
    known = stage.records[1].state.object("g1o1")
    assert known is not None
    assert known.gone


def test_nothing_forgotten_an_attempt_that_never_landed_does_not_block_for_ever() -> None:
    """B2: committed, its sender died; under `auto` its bound closes it, and not before."""
    stage = Stage()
    stage.begin()
    one = Supervisor(stage)
    one.move()
    one.until("attempt")
    stage.commit(Cancelled("stop it"))
    assert waits(one.run()) == [WaitKind.CALL]
    stage.now += 40
    assert isinstance(one.run(), Rest)
    (attempt,) = stage.records[1].state.submissions[0].attempts
    assert attempt.never_landed


def test_nothing_forgotten_a_second_landing_is_waited_for_and_stopped() -> None:
    """B3: matched, ended; its start may land twice where an answer does not end it."""
    stage = Stage()
    stage.begin()
    one = Supervisor(stage)
    one.move()
    start = one.until("attempt")
    one.hear(start, stage.land(start))
    one.run()
    stage.end("g1o1")
    assert isinstance(one.run(), Rest)
    stage.land(start)  # The copy, after settlement: gated, alive.
    heir = Supervisor(stage)
    heir.look()
    heir.file()
    assert stage.records[1].state.settled_revision == 0
    assert isinstance(heir.run(), Rest)
    assert stage.things["g1o2"].phase is Phase.ENDED
    assert stage.records[1].state.outcome == outcome_of("g1o1")


# --- D: found last --------------------------------------------------------------------------------


def test_no_overlap_an_answered_stop_accounts_for_nothing() -> None:
    """D1: with permits, the withdrawal tells that it had started, so it is lost, not gone."""
    stage, first = running()
    stage.forget("g1o1")
    stage.commit(Cancelled("stop it"))
    assert waits(first.run()) == [WaitKind.LOST]
    known = stage.records[1].state.object("g1o1")
    assert known is not None
    assert (known.gone, known.lost) == (False, True)


def test_no_overlap_a_record_without_an_outcome_is_never_quiet() -> None:
    """D2: ended, accounted for, every call over; its rule might still launch again."""
    stage, first = running()
    stage.end("g1o1")
    first.look()
    first.file()
    assert first.record is not None
    assert first.view is not None
    left = settlement.unquiet(first.record, first.view, stage.capabilities, predecessors=())
    assert left.outcome_missing
    assert not left.quiet
    assert not left.alive


def test_cancel_final_evidence_alone_does_not_hold_an_opening_back() -> None:
    """D3: a busy record must not keep its gate shut until the deadline, again and again."""
    stage = Stage()
    stage.begin()
    one = Supervisor(stage)
    opening = one.until("open")
    stage.commit(building.sighted(stage.now, stage.things["g1o1"].sight()))
    stage.put(building.mark(1, tag="foreign"))
    other = Supervisor(stage)
    other.look()
    other.file()
    assert one.may_send(opening)
