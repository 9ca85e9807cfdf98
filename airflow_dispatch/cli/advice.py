"""What to tell a person about each wait, step and promise: the tables of `explanation`.

For each thing that a job can wait for: what ends the wait, and what somebody can do meanwhile,
which is often nothing. A test holds that no wait, step or promise is without its words.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_dispatch.core.steps import StepName, WaitKind


@dataclass(frozen=True, slots=True)
class Advice:
    """What ends a wait, and what to do meanwhile. Both go on after "... ends it" and "Do: "."""

    ends: str
    act: str


NOTHING = "nothing; a supervisor goes on by itself"

WAITS: dict[WaitKind, Advice] = {
    WaitKind.LOOKING: Advice(
        "The next look at the cluster",
        "nothing; if it lasts, `airflow dispatch doctor` says whether the cluster answers",
    ),
    WaitKind.CALL: Advice(
        "The call's clear answer, or its deadline and the time in which a call can still land",
        NOTHING,
    ),
    WaitKind.REFUSED: Advice(
        "The pause after the refusal, which grows each time",
        "mend what the cluster names, if it is in your hands; the next try comes by itself",
    ),
    WaitKind.ATTEMPTS: Advice(
        "An object of one of the calls that turns up, or certainty that none of them can land",
        "look whether the cluster works at all, and whether it holds objects of the job",
    ),
    WaitKind.UNMATCHED: Advice(
        "Word of what became of the call: its object turns up, or a person knows that it has none",
        "look on the cluster for an object that bears the mark of the job",
    ),
    WaitKind.DUPLICATE: Advice("The end of the duplicate, which is being stopped", NOTHING),
    WaitKind.EARLIER_SUBMISSION: Advice("The certain end of that launch", NOTHING),
    WaitKind.PREDECESSOR: Advice(
        "The certain end of everything of the earlier try",
        "`airflow dispatch explain` the earlier generation: it says what that one waits for",
    ),
    WaitKind.ELSE_ALIVE: Advice(
        "The end of what is still there, which is being stopped",
        "nothing; if it lasts, look on the cluster why it does not end",
    ),
    WaitKind.ASKED: Advice(
        "Rows of Airflow that say clearly whether the task still wants the run",
        "find out where the DAG run went (a restored database, `airflow db clean`?);"
        " `airflow dispatch cancel` ends the run if nobody wants it",
    ),
    WaitKind.QUEUED: Advice(
        "A place on the cluster", "wait, or free a place; a smaller job may find one sooner"
    ),
    WaitKind.RUNNING: Advice(
        "The run's own end, or its time limit", "nothing; `show` says where its output is"
    ),
    WaitKind.ENDING: Advice(
        "The end of its last process, or the record that its wrapper writes",
        "nothing; if it lasts, look on the host for processes of the run",
    ),
    WaitKind.WITNESS: Advice(
        "The run's own records, or the time for which an end stays undecided without them",
        "see that the run folder can be read from here",
    ),
    WaitKind.LOST: Advice(
        "Its exit record, a leave to start taken back in time, or its time limit",
        "look on the cluster whether anything of it still runs",
    ),
    WaitKind.STOPPING: Advice(
        "The end of what was stopped: its grace, then the kill",
        "nothing; if it lasts, look on the host for processes that do not die",
    ),
    WaitKind.WITHDRAWAL: Advice(
        "The answer that says who was first, the start or its withdrawal",
        "see that the run folder can be written from here",
    ),
    WaitKind.FOREIGN: Advice(
        "The end of that object, once a person has looked at it",
        "find out who made it; stop it on the cluster if it is nobody's, or cancel the job, which"
        " stops it too",
    ),
}

STEPS: dict[StepName, str] = {
    StepName.AUTHORIZE: "authorize a launch",
    StepName.ATTEMPT: "start an object, held behind its gate",
    StepName.CHOOSE: "choose the one object that may run",
    StepName.RETIRE: "retire a duplicate for ever",
    StepName.OPEN: "open the gate, so that the run starts",
    StepName.OPENED_OUTSIDE: "take over a run that somebody else let start",
    StepName.STOP: "stop what is alive and must not be",
    StepName.STOP_JOB: "stop everything of the job",
    StepName.WITHDRAW: "take back the leave to start",
    StepName.NEVER_LANDED: "close a start call that came to nothing",
    StepName.GONE: "record that an object is gone and never ran",
    StepName.LOST: "record that an object is not found any more",
    StepName.CONCLUDE: "record the outcome",
    StepName.QUIET: "record that nothing of the job runs or can run any more",
    StepName.SETTLE: "settle the record",
}

PROMISES: dict[str, str] = {
    "authorized-only": "nothing runs that the record does not authorize",
    "cancel-final": "after a cancel nothing new starts, and all that was started is stopped",
    "nothing-forgotten": "a record stays open until every launch is accounted for",
    "no-overlap": "two runs of one task never run at once",
    "evidence-only": "nothing counts as ended or successful before something shows so",
    "follows-the-task": "a run lives exactly as long as its task wants it",
}
