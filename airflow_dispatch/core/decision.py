"""`next(record, view, context)`: the one place that says what happens next to a job.

Pure and total.

It is called after the evidence of the view was filed, and decides from what is true now and what is
recorded, never from having seen a change. The supervisor commits its answer at the revision it was
decided from and makes the call, if any; on a conflict everything is read and found again. Launching
is in `launching`, everything after an outcome in `cleaning`; what both share is here, below `next`.
"""

from __future__ import annotations

from airflow_dispatch.core import cleaning, launching
from airflow_dispatch.core.record import Call, Open, Record
from airflow_dispatch.core.steps import Context, Step
from airflow_dispatch.core.view import View


def next(record: Record, view: View, context: Context) -> Step:  # noqa: A001 - used qualified
    """The next step, by what the record holds and what a Find begun after its load showed."""
    if record.state.outcome is None:
        return launching.step(record, view, context)
    return cleaning.step(record, view, context)


def reason_not_to_send(record: Record, call: Call) -> str:
    """Why a committed opening must not be sent, by the record as read again now; empty: send it.

    Evidence that was filed meanwhile does not matter. [cancel-final] [no-overlap]
    """
    if not isinstance(call.intent, Open):
        return ""
    state, wanted = record.state, record.state.object(call.intent.object)
    newest = state.newest
    if state.outcome is not None:
        return f"the job has an outcome: {state.outcome}"
    if wanted is None or newest is None or newest.canonical != wanted.id:
        return "the object is not the canonical one of the newest submission"
    if wanted.retired:
        return f"the object was retired: {wanted.retired}"
    return ""
