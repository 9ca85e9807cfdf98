"""The story of a run in lines for people: what was decided and why, what was seen.

What the cluster answered.

Everything is told after it is on record, so that the log never claims more than the record holds.
"""

from __future__ import annotations

from typing_extensions import assert_never

from airflow_dispatch.core.causes import MEANINGS, Cause, CauseKind
from airflow_dispatch.core.commits import (
    Adopted,
    Authorized,
    Begun,
    Body,
    Cancelled,
    Chosen,
    Concluded,
    Gone,
    Intended,
    Lost,
    NeverLanded,
    OpenedOutside,
    Quieted,
    Replied,
    Retired,
    Settled,
    Sight,
    Sighted,
)
from airflow_dispatch.core.record import (
    Call,
    Created,
    Decided,
    Done,
    Intent,
    NotSent,
    Open,
    Outcome,
    OutcomeState,
    Record,
    Refused,
    Reply,
    Start,
    Stop,
    StopJob,
    Unclear,
    Withdraw,
)
from airflow_dispatch.core.steps import WAITS, Carry, Decide, Rest, Send, Step, Wait
from airflow_dispatch.ports.journal import Journal, Level


def step(journal: Journal, taken: Step) -> None:
    """Tell a step that was just committed (or a stop about to be repeated)."""
    match taken:
        case Decide(body=body) | Send(body=body):
            journal.tell(_level(body), sentence(body))
        case Carry(call=call):
            journal.tell(Level.INFO, f"Again: {intent_sentence(call.intent)}")
        case Wait() | Rest():
            return
        case _:
            assert_never(taken)


def cancelled(journal: Journal, record: Record) -> None:
    """Tell of a cancel, whoever committed it, before the first stop follows from it."""
    outcome = record.state.outcome
    if outcome is None or outcome.state is not OutcomeState.CANCELLED:
        return
    if any(isinstance(call.intent, StopJob) for call in record.state.calls):
        return
    journal.tell(
        Level.WARNING,
        f"Cancelled by {outcome.actor}: {outcome.reason}. What runs is being stopped.",
    )


def waits(journal: Journal, wait: Wait) -> None:
    """Tell what the job waits for now."""
    for one in wait.waits:
        meaning = WAITS[one.kind]
        detail = f" ({one.detail})" if one.detail else ""
        held = f" [{meaning.promise}]" if meaning.promise else ""
        journal.tell(Level.INFO, f"Waiting for {meaning.text}{detail}{held}.")


def shown(journal: Journal, sighted: Sighted) -> None:
    """Tell what a Find newly showed."""
    for sight in sighted.objects:
        journal.tell(Level.INFO, sight_sentence(sight))


def replied(journal: Journal, call: Call, reply: Reply) -> None:
    """Tell what came back from a call."""
    level = Level.WARNING if isinstance(reply, (Refused, Unclear, NotSent)) else Level.INFO
    journal.tell(level, reply_sentence(call.intent, reply))


def sentence(body: Body) -> str:  # noqa: C901 - one case for each body of a closed union
    """One commit in words; the command line's history uses it too."""
    match body:
        case Begun():
            return f"Generation {body.key.generation} begins, on cluster {body.job.cluster}."
        case Authorized():
            return f"Submission {body.number} is authorized."
        case Intended():
            return intent_sentence(body.intent)
        case Chosen():
            return (
                f"{_short(body.object)} is the one that may run for submission {body.submission}."
            )
        case Retired():
            return f"{_short(body.object)} will never run: {body.reason}."
        case NeverLanded():
            return (
                f"Attempt {body.attempt} of submission {body.submission} never reached the cluster."
            )
        case Gone():
            return f"{_short(body.object)} is gone and never ran."
        case Lost():
            return (
                f"{_short(body.object)} is not found any more; whether it still runs is not known."
            )
        case OpenedOutside():
            return (
                f"{_short(body.object)} was opened outside at a time when it might be; it goes on."
            )
        case Concluded():
            return outcome_sentence(body.outcome)
        case Quieted():
            return "Nothing of the job runs or can run any more."
        case Settled():
            return "Settled: every launch is accounted for."
        case Adopted():
            return f"Adopted by try {body.binding.try_number}."
        case Cancelled():
            return f"Cancelled: {body.reason}."
        case Sighted():
            return " ".join(sight_sentence(sight) for sight in body.objects)
        case Replied():
            return f"Answer to call {body.call}: {_reply_words(body.reply)}."
        case _:
            assert_never(body)


def intent_sentence(intent: Intent) -> str:
    """A call about to be made, in words."""
    match intent:
        case Start():
            return f"Starting attempt {intent.attempt} of submission {intent.submission}, gated."
        case Open():
            return f"Opening the gate of {_short(intent.object)} (permit {intent.permit.number})."
        case Stop():
            return f"Stopping {_short(intent.object)}: {intent.reason}."
        case StopJob():
            return f"Stopping everything of the job (round {intent.round})."
        case Withdraw():
            return f"Taking back permit {intent.permit.number} of {_short(intent.object)}."
        case _:
            assert_never(intent)


def outcome_sentence(outcome: Outcome) -> str:
    """An outcome in words, with what to do about it."""
    if outcome.state is OutcomeState.FAILED and outcome.cause is not None:
        meaning = MEANINGS[outcome.cause.kind]
        return f"Outcome: failed, {outcome.cause} ({meaning.text}; {meaning.act})."
    return f"Outcome: {outcome}."


def sight_sentence(sight: Sight) -> str:
    """What a Find showed of one object, in words."""
    words = f"{_short(sight.id)} is {sight.phase.value}"
    latest = sight.incarnations[-1] if sight.incarnations else None
    if latest is not None and latest.verdict is not None:
        words += f", {_ending_words(latest.verdict.cause)}" + (
            "" if latest.idle else ", some of it still there"
        )
    elif latest is not None and latest.started and latest.host:
        words += f" on {latest.host}"
    return words + (f" ({sight.note})" if sight.note else "") + "."


def _ending_words(cause: Cause | None) -> str:
    if cause is None:
        return "ended successfully"
    if cause.kind is CauseKind.CANCELLED_OUTSIDE and cause.detail:
        return f"stopped ({cause.detail})"
    return f"ended with {cause}"


def reply_sentence(intent: Intent, reply: Reply) -> str:
    """An answer together with what was asked."""
    asked = "stop of everything" if isinstance(intent, StopJob) else type(intent).__name__.lower()
    return f"Answer to {asked}: {_reply_words(reply)}."


def _reply_words(reply: Reply) -> str:
    match reply:
        case Created():
            return f"created {_short(reply.object)}" + (
                ", gated" if reply.gated else ", WITHOUT its gate"
            )
        case Refused():
            return f"refused {'for good' if reply.permanent else 'for now'}: {reply.reason}"
        case Done():
            return "taken"
        case Decided():
            began = [str(count) for count, started in reply.starts if started]
            return (
                f"start {', '.join(began)} had begun" if began else "withdrawn, it can never start"
            )
        case Unclear():
            return f"none that is clear ({reply.reason}); it may still take effect"
        case NotSent():
            return f"not sent: {reply.reason}"
        case _:
            assert_never(reply)


def _level(body: Body) -> Level:
    match body:
        case Lost() | OpenedOutside() | Cancelled():
            return Level.WARNING
        case Concluded(outcome=outcome) if outcome.state is OutcomeState.FAILED:
            return Level.ERROR
        case _:
            return Level.INFO


def _short(wanted: str) -> str:
    return wanted if len(wanted) <= 16 else f"{wanted[:12]}…"
