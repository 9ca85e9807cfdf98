"""Before an outcome: authorize, attempt, choose, retire, open, and conclude from how the run ended.

The order of the questions is the order of the promises: what must not run is dealt with first, then
what can be judged from absence, then the launch itself. A gate is opened only where `gate_waits`
finds nothing in the way, by the record and by the Find of this very pass. [authorized-only]
[no-overlap]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from airflow_dispatch import limits
from airflow_dispatch.core import judging, settlement
from airflow_dispatch.core.causes import Cause, CauseKind
from airflow_dispatch.core.commits import (
    Authorized,
    Chosen,
    Concluded,
    Intended,
    OpenedOutside,
    Retired,
    Sight,
)
from airflow_dispatch.core.record import (
    Attempt,
    Call,
    NotSent,
    ObjectState,
    Open,
    Outcome,
    OutcomeState,
    Permit,
    Phase,
    Record,
    Refused,
    Start,
    State,
    Submission,
    Verdict,
    Withdraw,
)
from airflow_dispatch.core.steps import (
    Context,
    Decide,
    Send,
    Step,
    StepName,
    Wait,
    Waiting,
    WaitKind,
)
from airflow_dispatch.core.view import View
from airflow_dispatch.errors import InvariantBroken


def step(record: Record, view: View, context: Context) -> Step:
    """The next step of a job without an outcome."""
    newest = record.state.newest
    if newest is None:
        return Decide(StepName.AUTHORIZE, Authorized(1))
    return judging.first(
        _to_be_dealt_with(record, view, context, newest=newest),
        lambda: _go_on(record, view, context, newest=newest),
    )


def _to_be_dealt_with(
    record: Record, view: View, context: Context, *, newest: Submission
) -> Iterator[Step | None]:
    yield _retirement(record.state, newest)
    yield from _stops_of_unwanted(record, view, context)
    yield judging.from_absence(record, view, context)


def _go_on(record: Record, view: View, context: Context, *, newest: Submission) -> Step:
    if newest.canonical is None:
        return _seek(record, view, context, newest=newest)
    canonical = record.state.object(newest.canonical)
    if canonical is None:
        raise InvariantBroken(f"the canonical object {newest.canonical} is not on record")
    return _follow(record, view, context, canonical=canonical)


# --- what must not run ----------------------------------------------------------------------------


def _retirement(state: State, newest: Submission) -> Step | None:
    canonical = {s.canonical for s in state.submissions}
    for wanted in state.objects:
        if wanted.retired or wanted.id in canonical or not state.knows(wanted.mark):
            continue
        reason = ""
        if wanted.mark.submission < newest.number:
            reason = f"submission {wanted.mark.submission} was superseded"
        elif newest.canonical is not None:
            reason = f"duplicate of {newest.canonical}"
        elif wanted.born_open:
            reason = "it was created without its gate"
        if reason:
            return Decide(StepName.RETIRE, Retired(wanted.id, reason))
    return None


def _stops_of_unwanted(record: Record, view: View, context: Context) -> Iterator[Step | None]:
    state = record.state
    for sight in view.of(state.key):
        known = state.object(sight.id)
        if known is None or not state.knows(sight.mark):
            continue
        superseded = state.newest is not None and known.mark.submission < state.newest.number
        if known.retired or superseded:
            reason = known.retired or "superseded"
            yield judging.stop(record, view, context, wanted=known.id, reason=reason)


# --- no canonical object yet ----------------------------------------------------------------------


def _seek(record: Record, view: View, context: Context, *, newest: Submission) -> Step:
    """Choose the canonical object, or make the next attempt, or give the launch up."""
    state = record.state
    chosen = _best(state, view, newest)
    if chosen is not None:
        return Decide(StepName.CHOOSE, Chosen(newest.number, chosen.id))
    rejected = _rejection(state, newest)
    if rejected is not None:
        return _fail(rejected)
    hopeful = [a for a in newest.attempts if settlement.landed(state, newest, a)]
    if hopeful:
        return Wait((Waiting(WaitKind.LOOKING, f"the object of attempt {hopeful[0].number}"),))
    refused = [a for a in newest.attempts if settlement.refusal(state, a) is not None]
    counted = [a for a in newest.attempts if a not in refused and not _not_sent(state, a)]
    if len(refused) > limits.REFUSALS_MAX:
        return _launch_failed(f"refused {len(refused)} times: {_said(state, refused)}")
    if len(counted) < limits.ATTEMPTS_MAX:
        return _attempt(record, view, context, newest=newest, refused=refused)
    unknown = [a for a in counted if settlement.unmatched(state, newest, a)]
    if unknown:
        return Wait((_unanswered(record, view, context, unknown=unknown),))
    return _launch_failed(f"none of {len(counted)} start calls led to an object")


def _best(state: State, view: View, newest: Submission) -> ObjectState | None:
    """The lowest attempt's object among those that this Find shows, ended ones included.

    One on record that ended, or was lost, before it was chosen counts as well: what may have run
    decides the submission, though a scheduler that forgets need not show it any more.
    """
    eligible = [
        known
        for known in state.objects
        if state.knows(known.mark)
        and known.mark.submission == newest.number
        and not known.retired
        and (known.ended or known.lost or view.shown(known.id) is not None)
    ]
    return min(eligible, key=lambda known: (known.mark.attempt, known.id), default=None)


def _unanswered(
    record: Record, view: View, context: Context, *, unknown: Sequence[Attempt]
) -> Waiting:
    """Until the last of the start calls can land no more; what is over then, a person closes."""
    calls = [call for a in unknown if (call := record.state.call(a.call)) is not None]
    still = [c for c in calls if not settlement.over(c, view, context.capabilities)]
    said = f"{len(unknown)} unanswered"
    if not still:
        return Waiting(WaitKind.UNMATCHED, said)
    landings = (judging.over_at(call, context) for call in still)
    until = max((moment for moment in landings if moment is not None), default=None)
    return Waiting(WaitKind.ATTEMPTS, said, until)


def _rejection(state: State, newest: Submission) -> Cause | None:
    for attempt in newest.attempts:
        refusal = settlement.refusal(state, attempt)
        if refusal is not None and refusal.permanent:
            return Cause(CauseKind.REJECTED, detail=_cut(refusal.reason))
    for wanted in state.objects:
        if wanted.born_open and wanted.mark.submission == newest.number:
            detail = f"{wanted.id} was created without its gate, so it was stopped"
            return Cause(CauseKind.REJECTED, detail=_cut(detail))
    return None


def _attempt(
    record: Record, view: View, context: Context, *, newest: Submission, refused: Sequence[Attempt]
) -> Step:
    last = newest.attempts[-1] if newest.attempts else None
    if last is not None:
        call = record.state.call(last.call)
        if call is not None and max(call.revision, call.reply_revision) > view.base:
            return Wait(
                (Waiting(WaitKind.LOOKING, f"whether attempt {last.number} made an object"),)
            )
        if last in refused and call is not None and call.deadline is not None:
            due = _next_try(call.deadline, context, refusals=len(refused))
            if view.began < due:
                return Wait((Waiting(WaitKind.REFUSED, _said(record.state, refused), due),))
    number = 1 if last is None else last.number + 1
    intent = judging.intend(record, Start(newest.number, number, context.tag))
    return Send(
        StepName.ATTEMPT,
        Intended(intent.number, intent.intent, view.began + context.policy.call_time),
    )


def _next_try(deadline: datetime, context: Context, *, refusals: int) -> datetime:
    policy = context.policy
    backoff = min(
        policy.refusal_backoff_seconds * 2 ** min(refusals - 1, 20),
        policy.refusal_backoff_seconds_max,
    )
    return deadline - policy.call_time + timedelta(seconds=backoff)


# --- the canonical object -------------------------------------------------------------------------


def _follow(record: Record, view: View, context: Context, *, canonical: ObjectState) -> Step:
    """Open the canonical object's gate, watch its run, conclude from how it ended."""
    sight, run = view.shown(canonical.id), settlement.wanted_start(record.state, canonical)
    if canonical.gone:
        return _launch_failed(f"{canonical.id} went away before its gate was opened")
    if canonical.lost and (run is None or run.verdict is None):
        return _lost(record, view, context, canonical=canonical)
    if _may_have_run_unopened(record.state, canonical):
        return _opened_outside(record, view, context, canonical=canonical)
    if run is not None and run.verdict is not None:
        return _concluded(view, context, canonical=canonical, verdict=run.verdict)
    if sight is None:
        return Wait((Waiting(WaitKind.LOOKING, canonical.id),))
    if canonical.latest is not run:
        return _started_again(record, view, context, canonical=canonical)
    return _watch(record, view, context, canonical=canonical, sight=sight)


def _watch(
    record: Record, view: View, context: Context, *, canonical: ObjectState, sight: Sight
) -> Step:
    match sight.phase:
        case Phase.GATED:
            at_gate = _came_back if canonical.started else _open
            return at_gate(record, view, context, canonical=canonical)
        case Phase.QUEUED:
            return Wait((Waiting(WaitKind.QUEUED, sight.note),))
        case Phase.RUNNING:
            return Wait((Waiting(WaitKind.RUNNING, sight.note),))
        case Phase.STOPPING | Phase.ENDED:
            return Wait((Waiting(WaitKind.ENDING, sight.note),))


def _may_have_run_unopened(state: State, canonical: ObjectState) -> bool:
    begun = canonical.started or canonical.phase in (Phase.QUEUED, Phase.RUNNING)
    return begun and not settlement.opened(state, canonical.id) and not canonical.opened_outside


def _opened_outside(
    record: Record, view: View, context: Context, *, canonical: ObjectState
) -> Step:
    """Somebody lifted the gate: take over what might be opened just now, else give it up."""
    waits = tuple(gate_waits(record, view, context, canonical=canonical))
    if not waits:
        return Decide(StepName.OPENED_OUTSIDE, OpenedOutside(canonical.id))
    if all(wait.kind is WaitKind.ASKED for wait in waits):
        return Wait(waits)  # Until a person answers, what runs goes on.
    found = judging.stop(
        record, view, context, wanted=canonical.id, reason="its gate was opened outside"
    )
    why = ", ".join(dict.fromkeys(wait.kind.value for wait in waits))
    return found or _launch_failed(
        f"{canonical.id} was opened outside while it had to wait ({why})", wanted=canonical
    )


def _started_again(record: Record, view: View, context: Context, *, canonical: ObjectState) -> Step:
    """A start beyond every permit: nobody here asked for it, so it is stopped and not followed."""
    sight = view.shown(canonical.id)
    if sight is not None and sight.idle:
        detail = (
            f"{canonical.id} started again without leave; how its first start ended is not known"
        )
        return _fail(Cause(CauseKind.UNKNOWN, detail=_cut(detail)), wanted=canonical)
    reason = "it started again without leave"
    found = judging.stop(record, view, context, wanted=canonical.id, reason=reason)
    return found or Wait((Waiting(WaitKind.STOPPING, canonical.id),))


def _came_back(record: Record, view: View, context: Context, *, canonical: ObjectState) -> Step:
    """Behind its gate again after it started: the first start owns the outcome, so it is stopped.

    A scheduler that was rolled back shows this while the first start still runs; opening it again
    would run it twice. [no-overlap]
    """
    found = judging.stop(
        record, view, context, wanted=canonical.id, reason="it came back to its gate after a start"
    )
    return found or Wait((Waiting(WaitKind.STOPPING, canonical.id),))


def _concluded(view: View, context: Context, *, canonical: ObjectState, verdict: Verdict) -> Step:
    sight = view.shown(canonical.id)
    if sight is not None and sight.unreadable:
        since = verdict.ended_at or canonical.shown_at or view.began
        until = since + timedelta(seconds=context.policy.witness_wait_seconds)
        if view.began < until:
            return Wait((Waiting(WaitKind.WITNESS, canonical.id, until),))
    if verdict.cause is not None:
        return _fail(verdict.cause, wanted=canonical)
    return Decide(
        StepName.CONCLUDE, Concluded(Outcome(OutcomeState.SUCCEEDED, object=canonical.id))
    )


def _lost(record: Record, view: View, context: Context, *, canonical: ObjectState) -> Step:
    """Learn that it can run no more: by withdrawals, its own records, or its time limit."""
    if settlement.loss_resolved(record, canonical, view, context.capabilities):
        detail = _cut(f"{canonical.id} vanished from the cluster")
        return _fail(Cause(CauseKind.UNKNOWN, detail=detail), wanted=canonical)
    if context.capabilities.permits:
        for permit in settlement.permits_of(record.state, canonical.id):
            found = judging.withdraw(record, context, canonical.id, permit)
            if found is not None:
                return found
    until = judging.resolved_at(record, canonical, context)
    return Wait((Waiting(WaitKind.LOST, canonical.id, until),))


# --- the gate -------------------------------------------------------------------------------------


def _open(record: Record, view: View, context: Context, *, canonical: ObjectState) -> Step:
    waits = tuple(gate_waits(record, view, context, canonical=canonical))
    if waits:
        return Wait(waits)
    openings = [
        c
        for c in record.state.calls
        if isinstance(c.intent, Open) and c.intent.object == canonical.id
    ]
    last = openings[-1] if openings else None
    if last is not None and isinstance(last.reply, Refused) and last.reply.permanent:
        return _launch_failed(last.reply.reason, wanted=canonical)
    too_soon = None if last is None else _too_soon(view, context, last=last)
    if too_soon is not None:
        return Wait((too_soon,))
    permits = settlement.permits_of(record.state, canonical.id)
    if permits and _is_being_withdrawn(record.state, canonical, permits[-1]):
        found = judging.withdraw(record, context, canonical.id, permits[-1])
        return found or Wait((Waiting(WaitKind.WITHDRAWAL, f"permit {permits[-1].number}"),))
    intent = judging.intend(record, Open(canonical.id, _permit(record.state, canonical)))
    return Send(
        StepName.OPEN, Intended(intent.number, intent.intent, view.began + context.policy.call_time)
    )


def _too_soon(view: View, context: Context, *, last: Call) -> Waiting | None:
    """The pause after an opening that took no effect, whatever was answered to it."""
    due = None if last.deadline is None else _next_try(last.deadline, context, refusals=1)
    if due is None or view.began >= due:
        return None
    if isinstance(last.reply, Refused):
        return Waiting(WaitKind.REFUSED, last.reply.reason, due)
    return Waiting(WaitKind.CALL, f"call {last.number} (open) to take effect", due)


def _is_being_withdrawn(state: State, canonical: ObjectState, permit: Permit) -> bool:
    """Asked for while the object was lost, and not answered: the next opening needs the answer."""
    asked = any(call.intent == Withdraw(canonical.id, permit) for call in state.calls)
    return asked and settlement.withdrawal(state, canonical.id, permit) is None


def _permit(state: State, canonical: ObjectState) -> Permit:
    """The permit that is still undecided, or the next one for what waits at the gate."""
    permits = settlement.permits_of(state, canonical.id)
    if permits and settlement.withdrawal(state, canonical.id, permits[-1]) is None:
        return permits[-1]
    count = 0 if canonical.latest is None else canonical.latest.start_count
    return Permit(len(permits) + 1, count, count)


def gate_waits(
    record: Record, view: View, context: Context, *, canonical: ObjectState
) -> Iterator[Waiting]:
    """What keeps the canonical object's gate shut in this pass; nothing: open it [no-overlap]."""
    state, newest = record.state, record.state.newest
    if newest is None or newest.canonical != canonical.id or state.outcome is not None:
        raise InvariantBroken(
            "a gate is opened for the newest submission's canonical object, before an outcome"
        )
    if view.base < newest.revision:
        yield Waiting(WaitKind.LOOKING, "since the launch was authorized")
    if context.asked:
        yield Waiting(WaitKind.ASKED)
    for wanted in state.objects:
        if wanted.id == canonical.id:
            continue
        if not settlement.accounted(record, wanted, view, context.capabilities):
            yield Waiting(_in_the_way(state, wanted, newest), wanted.id)
    yield from _call_waits(record, view, context, canonical=canonical)
    if not settlement.quiet_chain(state, context.predecessors):
        yield Waiting(WaitKind.PREDECESSOR, f"generation {state.predecessor}")
    yield from _other_life(record, view, canonical=canonical)


def _in_the_way(state: State, wanted: ObjectState, newest: Submission) -> WaitKind:
    if not state.knows(wanted.mark):
        return WaitKind.FOREIGN
    return (
        WaitKind.EARLIER_SUBMISSION
        if wanted.mark.submission < newest.number
        else WaitKind.DUPLICATE
    )


def _call_waits(
    record: Record, view: View, context: Context, *, canonical: ObjectState
) -> Iterator[Waiting]:
    state = record.state
    for call in settlement.pending(state, view, context.capabilities):
        if _concerns_gate(call, canonical):
            yield judging.call_wait(call, context)
    for owner, permit in state.permits if context.capabilities.permits else ():
        if owner != canonical.id and not settlement.withdrawn_before(state, owner, permit, view):
            yield Waiting(WaitKind.WITHDRAWAL, f"permit {permit.number} of {owner}")


def _concerns_gate(call: Call, canonical: ObjectState) -> bool:
    """Opens of anything, and starts of earlier submissions.

    A start of this one can only make a gated duplicate.
    """
    if isinstance(call.intent, Start):
        return call.intent.submission < canonical.mark.submission
    return True


def _other_life(record: Record, view: View, *, canonical: ObjectState) -> Iterator[Waiting]:
    """Anything else alive of this task, as this pass's Find shows it.

    "Was seen ended" alone is not enough where schedulers forget.
    """
    known = {o.id for o in record.state.objects}
    for sight in view.snapshot.objects:
        other = sight.mark.task_digest == record.state.key.task.digest and sight.id != canonical.id
        if other and not sight.idle and sight.id not in known:
            yield Waiting(WaitKind.ELSE_ALIVE, f"{sight.id} of generation {sight.mark.generation}")


# --- small words ----------------------------------------------------------------------------------


def _launch_failed(detail: str, *, wanted: ObjectState | None = None) -> Step:
    return _fail(Cause(CauseKind.LAUNCH_FAILED, detail=_cut(detail)), wanted=wanted)


def _fail(cause: Cause, *, wanted: ObjectState | None = None) -> Step:
    outcome = Outcome(
        OutcomeState.FAILED, cause=cause, object=None if wanted is None else wanted.id
    )
    return Decide(StepName.CONCLUDE, Concluded(outcome))


def _not_sent(state: State, attempt: Attempt) -> bool:
    call = state.call(attempt.call)
    return call is not None and isinstance(call.reply, NotSent)


def _said(state: State, refused: Sequence[Attempt]) -> str:
    refusal = settlement.refusal(state, refused[-1]) if refused else None
    return "" if refusal is None else refusal.reason


def _cut(text: str) -> str:
    return (
        text if len(text) <= limits.DETAIL_CHARS_MAX else text[: limits.DETAIL_CHARS_MAX - 1] + "…"
    )
