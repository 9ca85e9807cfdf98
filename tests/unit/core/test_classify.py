"""Classify, row by row: whether the task instance still wants the run [follows-the-task].

Each case is a story of Airflow's rows as they were measured on a real scheduler; the numbers of the
rows are those of the truth table in the module's design. What matters most is what never cancels:
time, a restart, a redeploy, and an absence that a wrong database would show as well.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_dispatch.core import folding
from airflow_dispatch.core.classify import FINISHED, PRESENT, Answer, TaskRow, Wish, classify
from airflow_dispatch.core.record import OnClear, Outcome, State
from tests.unit.core import building
from tests.unit.core.building import BINDING, CANCELLED, FAILED, SUCCEEDED

SAME = TaskRow(
    deployment=building.TASK.deployment,
    dag_run_id=BINDING.dag_run_id,
    ti_id=BINDING.ti_id,
    state="deferred",
    try_number=BINDING.try_number,
    max_tries=BINDING.max_tries,
    clear_number=BINDING.clear_number,
)
"""The very try that the record was made for, deferred."""
NEXT = replace(SAME, ti_id="ti-2", try_number=2)
"""The next try, not cleared: it kept `max_tries`."""
CLEARED = replace(NEXT, max_tries=BINDING.try_number + 2, clear_number=1, cleared=True)
"""The next try after a clear: `max_tries` is now the try's number plus the retries."""
EVERY_STATE = [None, "restarting", "up_for_retry", "up_for_reschedule", *FINISHED, *PRESENT]


def state(outcome: Outcome | None = None, *, on_clear: OnClear = OnClear.RESTART) -> State:
    """A record of the binding, with that outcome."""
    first = building.begun(binding=replace(BINDING, on_clear=on_clear))
    made = folding.begin(building.commit(first))
    return made.state if outcome is None else replace(made.state, outcome=outcome)


def wish(row: TaskRow, outcome: Outcome | None = None, *, on_clear: str = "restart") -> Wish:
    """The answer's wish; every answer also says why."""
    answer: Answer = classify(state(outcome, on_clear=OnClear(on_clear)), row)
    assert answer.why
    return answer.wish


# --- row 0: the database --------------------------------------------------------------------------


@pytest.mark.parametrize("deployment", ["", "another"])
@pytest.mark.parametrize("found", EVERY_STATE)
def test_another_database_cancels_nothing(deployment: str, found: str | None) -> None:
    """Row 0: rows of a database that is not the record's own prove nothing, whatever they show."""
    row = replace(SAME, deployment=deployment, state=found)
    assert wish(row) is Wish.ASK
    assert wish(TaskRow(deployment, deleted=True)) is Wish.ASK


# --- row 1: no row --------------------------------------------------------------------------------


def test_a_deleted_task_instance_of_a_living_run_is_cancelled() -> None:
    """Row 1: the DAG run stands in the same snapshot, so the absence is positive."""
    assert wish(replace(SAME, ti_id=None, state=None)) is Wish.CANCEL


def test_a_run_that_the_audit_log_names_as_deleted_is_cancelled() -> None:
    """Row 1: a delete of the run or of the DAG is logged, and then it was meant."""
    assert wish(TaskRow(building.TASK.deployment, deleted=True)) is Wish.CANCEL


def test_a_run_that_vanished_without_a_trace_asks() -> None:
    """Row 1: cleaning by age and a restored backup delete without a trace; what runs goes on."""
    assert wish(TaskRow(building.TASK.deployment)) is Wish.ASK


def test_a_task_instance_without_its_run_is_no_positive_absence() -> None:
    """Row 1: without the DAG run nothing is certain, whatever is left of the task instance."""
    assert wish(replace(SAME, dag_run_id=None)) is Wish.ASK


@pytest.mark.parametrize("found", EVERY_STATE)
def test_a_run_deleted_and_created_again_is_cancelled(found: str | None) -> None:
    """Row 1b: same run_id and first try, but another surrogate key: not the run it was."""
    assert wish(replace(SAME, dag_run_id=8, state=found)) is Wish.CANCEL


# --- row 2: finished ------------------------------------------------------------------------------


@pytest.mark.parametrize("found", sorted(FINISHED))
@pytest.mark.parametrize("row", [SAME, NEXT, CLEARED])
def test_a_finished_task_without_an_outcome_is_cancelled(found: str, row: TaskRow) -> None:
    """Row 2: marked by a person, failed for good, skipped or removed, with any try's row."""
    assert wish(replace(row, state=found)) is Wish.CANCEL


@pytest.mark.parametrize("found", sorted(FINISHED))
def test_the_normal_end_is_no_cancel(found: str) -> None:
    """Row 2: the outcome is committed before the event, so a finished task with one just ended."""
    assert wish(replace(SAME, state=found), SUCCEEDED) is Wish.KEEP
    assert wish(replace(SAME, state=found), FAILED) is Wish.KEEP


# --- rows 3 and 5: the same try, or none there now ------------------------------------------------


@pytest.mark.parametrize("found", [*sorted(PRESENT), None, "up_for_retry", "up_for_reschedule"])
def test_the_very_try_keeps_its_run(found: str | None) -> None:
    """Row 3: redeploys, reassigned triggers and long outages leave id and try number alone."""
    assert wish(replace(SAME, state=found)) is Wish.KEEP


def test_a_later_clear_elsewhere_in_the_run_changes_nothing() -> None:
    """Row 3: `clear_number` rises with any clear in the DAG run, and the audit log names others."""
    assert wish(replace(SAME, clear_number=5)) is Wish.KEEP


@pytest.mark.parametrize("found", [None, "up_for_retry", "up_for_reschedule"])
def test_a_try_that_is_not_there_yet_waits_for_ever(found: str | None) -> None:
    """Row 5: between two tries the run goes on; being unattended is an alarm, never a cancel."""
    assert wish(replace(NEXT, state=found)) is Wish.KEEP


# --- row 4: another try ---------------------------------------------------------------------------


@pytest.mark.parametrize("found", sorted(PRESENT))
def test_an_uncleared_later_try_adopts(found: str) -> None:
    """Row 4: an orphan reset, a lost worker, a lost triggerer: the run is carried on with."""
    assert wish(replace(NEXT, state=found)) is Wish.ADOPT


def test_a_state_mismatch_keeps_the_id_and_raises_the_try() -> None:
    """T7: the id of a task instance is not unique per try; only id and try number together are."""
    assert wish(replace(SAME, try_number=2, state="running")) is Wish.ADOPT


def test_an_orphan_reset_keeps_the_try_and_may_change_the_id() -> None:
    """Row 4: another id with the same number is another try all the same, and not a cleared one."""
    assert wish(replace(SAME, ti_id="ti-2", state="queued")) is Wish.ADOPT


@pytest.mark.parametrize("found", [None, "scheduled", "queued", "running", "deferred"])
def test_a_clear_is_proven_by_max_tries(found: str | None) -> None:
    """T4: the next try may be deferred before the first one's trigger is told; rows tell."""
    assert wish(replace(CLEARED, state=found, cleared=False, clear_number=0)) is Wish.CANCEL


def test_a_clear_before_the_next_try_is_numbered_is_seen() -> None:
    """Right after a clear the row has a new id and still the old try number."""
    row = replace(SAME, ti_id="ti-2", state=None, max_tries=3, clear_number=1)
    assert wish(row) is Wish.CANCEL


def test_cleared_twice_both_records_are_cancelled() -> None:
    """The first record, and the one made after the first clear, both see the second clear."""
    third = replace(SAME, ti_id="ti-3", state="scheduled", try_number=3, max_tries=4)
    assert wish(third) is Wish.CANCEL
    second = replace(BINDING, ti_id="ti-2", try_number=2, max_tries=3, clear_number=1)
    made = folding.begin(building.commit(building.begun(generation=2, binding=second)))
    assert classify(made.state, third).wish is Wish.CANCEL
    assert classify(made.state, replace(third, ti_id="ti-2", try_number=2, max_tries=3)).wish is (
        Wish.KEEP
    )


@pytest.mark.parametrize("row", [SAME, NEXT])
def test_a_task_cleared_while_a_worker_had_it_is_cancelled(row: TaskRow) -> None:
    """Row 4: a running task that is cleared shows `restarting`, with `max_tries` unchanged."""
    assert wish(replace(row, state="restarting")) is Wish.CANCEL


def test_a_clear_that_only_the_audit_log_proves() -> None:
    """Row 4: a dead worker or lowered retries leave `max_tries`; the log names the cleared task."""
    assert wish(replace(NEXT, clear_number=1, cleared=True)) is Wish.CANCEL
    assert wish(replace(NEXT, clear_number=1, cleared=False)) is Wish.ADOPT
    assert wish(replace(NEXT, clear_number=0, cleared=True)) is Wish.ADOPT, "already accounted for"


@pytest.mark.parametrize(
    ("found", "expected"), [("deferred", Wish.ADOPT), (None, Wish.KEEP), ("success", Wish.CANCEL)]
)
def test_reattach_lets_a_cleared_task_keep_its_run(found: str | None, expected: Wish) -> None:
    """With `on_clear="reattach"` an open run is adopted, as soon as the next try is there."""
    assert wish(replace(CLEARED, state=found), on_clear="reattach") is expected


@pytest.mark.parametrize("row", [SAME, NEXT])
def test_reattach_holds_for_a_task_cleared_while_a_worker_had_it(row: TaskRow) -> None:
    """The run goes on while the worker is told to stop, and waits for the next try."""
    assert wish(replace(row, state="restarting"), on_clear="reattach") is Wish.KEEP


def test_reattach_does_not_bring_back_what_has_ended() -> None:
    """A clear after the outcome asks for a new run, whatever the outcome was."""
    assert wish(CLEARED, SUCCEEDED, on_clear="reattach") is Wish.CANCEL
    assert wish(CLEARED, FAILED, on_clear="reattach") is Wish.CANCEL


def test_a_retry_after_a_failed_outcome_starts_anew() -> None:
    """Row 4: adoption is for runs that are open, or that succeeded."""
    assert wish(NEXT, FAILED) is Wish.CANCEL
    assert wish(NEXT, CANCELLED) is Wish.CANCEL


# --- row 6: a success that was not delivered ------------------------------------------------------


def test_a_finished_training_is_not_repeated_because_its_event_was_lost() -> None:
    """Row 6, T7 and T8: the try went up, the record has its success: that one is delivered."""
    assert wish(NEXT, SUCCEEDED) is Wish.ADOPT
    assert wish(replace(SAME, try_number=2), SUCCEEDED) is Wish.ADOPT


def test_a_cleared_success_is_trained_again() -> None:
    """Row 6: somebody who clears a finished task wants another run."""
    assert wish(CLEARED, SUCCEEDED) is Wish.CANCEL


def test_no_row_and_no_state_of_it_raises() -> None:
    """Total: every combination of facts has an answer."""
    rows = [
        replace(base, state=found, cleared=cleared, clear_number=number)
        for base in (SAME, NEXT, CLEARED, TaskRow("x"), TaskRow(building.TASK.deployment))
        for found in [*EVERY_STATE, "a state of a later Airflow"]
        for cleared in (False, True)
        for number in (0, 1)
    ]
    for row in rows:
        for outcome in (None, SUCCEEDED, FAILED, CANCELLED):
            for on_clear in OnClear:
                assert wish(row, outcome, on_clear=on_clear.value) in Wish
