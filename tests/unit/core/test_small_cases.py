"""All small cases: what `decision.next` answers to each keeps every promise.

The conditions are written here a second time, from the promises and not from the code: an answer
that breaks one is a defect of the decision or of this page. Each answer is then folded into the
record and asked about again, on the same view, until it waits or rests: that it comes to an end,
and that no answer on the way breaks a promise either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from airflow_dispatch.core import decision, folding
from airflow_dispatch.core.causes import CauseKind
from airflow_dispatch.core.commits import Concluded, Gone, Lost, NeverLanded
from airflow_dispatch.core.job import Unmatched
from airflow_dispatch.core.record import (
    Call,
    Decided,
    Done,
    NotSent,
    ObjectState,
    Open,
    OutcomeState,
    Permit,
    Phase,
    Source,
    Start,
    Stop,
    StopJob,
    Withdraw,
)
from airflow_dispatch.core.steps import Carry, Decide, Rest, Send, Step, StepName, Wait
from tests.unit.core import small_cases
from tests.unit.core.building import BOUND, commit, mark
from tests.unit.core.small_cases import Case, Maker

STEPS_MAX = 16
LAUNCHING = {
    StepName.AUTHORIZE,
    StepName.ATTEMPT,
    StepName.CHOOSE,
    StepName.RETIRE,
    StepName.OPEN,
    StepName.OPENED_OUTSIDE,
    StepName.CONCLUDE,
}
CLEANING = {StepName.STOP_JOB, StepName.QUIET, StepName.SETTLE}


SHARED = {StepName.STOP, StepName.WITHDRAW, StepName.GONE, StepName.LOST}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("family", "least", "reached"),
    [
        (
            small_cases.seeking,
            12_000,
            {StepName.AUTHORIZE, StepName.ATTEMPT, StepName.CHOOSE, StepName.NEVER_LANDED},
        ),
        (
            small_cases.following,
            36_000,
            SHARED | {StepName.RETIRE, StepName.OPEN, StepName.OPENED_OUTSIDE, "Wait"},
        ),
        (small_cases.cleaning, 24_000, SHARED | CLEANING | {"Carry", "Wait", "Rest"}),
    ],
)
def test_every_answer_keeps_the_promises(
    family: Callable[[], Iterator[Maker]], least: int, reached: set[str]
) -> None:
    """Total, foldable, allowed, and at an end within a few steps; no check is idle."""
    answers: Counter[str] = Counter()
    for make in family():
        answers["cases"] += 1
        for taken in walked(make()):
            answers[taken.name if isinstance(taken, (Decide, Send)) else type(taken).__name__] += 1
    assert answers["cases"] >= least, answers
    assert {name for name in reached if not answers[name]} == set()


def walked(case: Case) -> Iterator[Step]:
    """The answers to a case, each checked, until one waits or rests."""
    paced: list[int] = []
    for _ in range(STEPS_MAX):
        around = replace(case.context, paced=frozenset(paced))
        taken = decision.next(case.record, case.view, around)
        broken = [line for line in breaches(case, taken) if line]
        assert not broken, f"{broken}: {taken}\nin {case.words}"
        yield taken
        match taken:
            case Wait() | Rest():
                return
            case Carry(call=call):
                assert call.number not in paced, f"carried twice: {call}\nin {case.words}"
                paced.append(call.number)
            case Decide(body=body) | Send(body=body):
                if isinstance(taken, Send):
                    paced.append(taken.body.number)
                moved = folding.apply(case.record, commit(body))
                assert moved.state != case.record.state, f"no effect: {taken}\nin {case.words}"
                case = replace(case, record=moved)
    raise AssertionError(f"no end after {STEPS_MAX} steps\nin {case.words}")


def breaches(case: Case, taken: Step) -> Iterator[str]:
    """What the answer breaks, in words."""
    outcome = case.record.state.outcome
    if isinstance(taken, Wait):
        yield "" if taken.waits else "waits for nothing"
        passed = [w for w in taken.waits if w.until is not None and w.until <= case.view.began]
        yield f"waits for what has passed: {passed}" if passed else ""
    elif isinstance(taken, Rest):
        yield "" if case.record.state.settled_revision else "rests unsettled"
        yield from not_quiet(case)
    else:
        yield "launches after an outcome" if outcome and taken.name in LAUNCHING else ""
        yield "cleans up before an outcome" if not outcome and taken.name in CLEANING else ""
        check = CHECKS.get(taken.name)
        yield from check(case, taken) if check is not None else ()


# --- facts, seen a second way ---------------------------------------------------------------------


def known_before(case: Case, revision: int) -> bool:
    """Whether the record had it before the Find began."""
    return revision <= case.view.base


def is_over(case: Case, call: Call) -> bool:
    """Not sent; or its deadline and bound have passed; or answered before the Find began."""
    if isinstance(call.reply, NotSent):
        return True
    if call.deadline is not None and call.deadline + BOUND < case.view.began:
        return True
    return call.answered and known_before(case, call.reply_revision)


def calls(case: Case, *kinds: type) -> list[Call]:
    """The record's calls of these kinds."""
    return [call for call in case.record.state.calls if isinstance(call.intent, kinds)]


def openings(case: Case, wanted: str) -> list[Call]:
    """The openings of an object that may have been sent."""
    found = [c for c in calls(case, Open) if not isinstance(c.reply, NotSent)]
    return [c for c in found if isinstance(c.intent, Open) and c.intent.object == wanted]


def answers(case: Case, owner: str, permit: Permit) -> Iterator[tuple[int, Decided]]:
    """What the permit's withdrawals were answered, and from which revision on it was known."""
    for call in calls(case, Withdraw):
        if call.intent == Withdraw(owner, permit) and isinstance(call.reply, Decided):
            yield call.reply_revision, call.reply


def decided(case: Case, owner: str, permit: Permit) -> bool:
    """Whether each start of the permit is decided for ever."""
    return any(True for _ in answers(case, owner, permit))


def taken_back(case: Case, owner: str, permit: Permit) -> bool:
    """Whether it was decided before the Find began."""
    return any(known_before(case, revision) for revision, _ in answers(case, owner, permit))


def won(case: Case, owner: str, permit: Permit) -> bool:
    """Whether no start of the permit has happened, nor ever will."""
    return any(
        not any(started for _, started in reply.starts) for _, reply in answers(case, owner, permit)
    )


def is_accounted(case: Case, known: ObjectState) -> bool:
    """Nothing of it runs or can run: by what this Find shows, and what the record knows."""
    shown = case.view.shown(known.id)
    if shown is not None and not shown.idle:
        return False
    if known.incarnations and all(i.verdict and i.idle for i in known.incarnations):
        return True
    if known.gone_at is not None and (known.shown_at is None or known.shown_at <= known.gone_at):
        return not known.started
    if known.lost_at is None or (known.shown_at is not None and known.shown_at > known.lost_at):
        return False
    job = case.record.job
    limit = (case.view.began - known.lost_at - BOUND).total_seconds()
    permits = [permit for owner, permit in case.record.state.permits if owner == known.id]
    never = bool(permits) and all(won(case, known.id, permit) for permit in permits)
    witnessed = bool(known.incarnations) and all(
        i.verdict is not None and (i.idle or i.verdict.source is Source.EXIT_RECORD)
        for i in known.incarnations
    )
    return (
        limit > job.time_limit_seconds + job.grace_seconds
        or (never and case.context.capabilities.permits)
        or witnessed
    )


# --- what each step needs -------------------------------------------------------------------------


def check_open(case: Case, taken: Step) -> Iterator[str]:
    """Everything that has to hold before a gate may open [no-overlap] [authorized-only]."""
    state = case.record.state
    assert isinstance(taken, Send)
    assert isinstance(taken.body.intent, Open)
    wanted, permit = taken.body.intent.object, taken.body.intent.permit
    shown, known, newest = case.view.shown(wanted), state.object(wanted), state.newest
    assert known is not None
    assert newest is not None
    yield "" if newest.canonical == wanted else "opens what is not canonical"
    yield "" if shown is not None and shown.phase is Phase.GATED else "opens what shows no gate"
    yield "opens what started" if known.started else ""
    yield "opens what is retired" if known.retired else ""
    yield "opens while a person is asked" if case.context.asked else ""
    yield "opens beside an earlier try" if case.predecessor in ("unquiet", "missing") else ""
    yield "" if known_before(case, newest.revision) else "the look is older than the launch"
    alive = [s.id for s in case.view.snapshot.objects if s.id != wanted and not s.idle]
    yield f"opens beside {alive}" if alive else ""
    others = [o.id for o in state.objects if o.id != wanted and not is_accounted(case, o)]
    yield f"opens before {others} are accounted for" if others else ""
    yield "" if all(is_over(case, c) for c in calls(case, Open)) else "an opening may still land"
    undone = [p for o, p in state.permits if o == wanted and p != permit]
    yield "" if all(decided(case, wanted, p) for p in undone) else "two permits at once"
    yield "" if taken.body.deadline is not None else "an opening without a deadline"


def check_stop(case: Case, taken: Step) -> Iterator[str]:
    """Before an outcome the canonical object is stopped only where it must not run."""
    intent = taken.body.intent if isinstance(taken, Send) else None
    intent = taken.call.intent if isinstance(taken, Carry) else intent
    assert isinstance(intent, Stop)
    state = case.record.state
    shown, known = case.view.shown(intent.object), state.object(intent.object)
    yield "" if shown is not None and not shown.idle else "stops what is not alive"
    yield "stops what is stopping" if shown and shown.phase is Phase.STOPPING else ""
    if state.outcome is None:
        assert known is not None
        assert shown is not None
        yield "" if state.knows(known.mark) else "a launch touches a foreign object"
        newest = state.newest
        if newest is not None and newest.canonical == known.id:
            came_back = shown.phase is Phase.GATED and known.started
            unopened = not openings(case, known.id) and not known.may_have_opened
            yield "" if came_back or unopened else "stops the run that is wanted"
        else:
            yield "" if known.retired else "stops what is not retired"
    elif not state.knows(shown.mark if shown else mark()):
        cancelled = state.outcome.state is OutcomeState.CANCELLED
        yield "" if cancelled else "stops a foreign object without a cancel"


def check_conclude(case: Case, taken: Step) -> Iterator[str]:
    """An outcome rests on positive evidence [evidence-only]."""
    assert isinstance(taken, Decide)
    assert isinstance(taken.body, Concluded)
    outcome, state = taken.body.outcome, case.record.state
    newest = state.newest
    assert newest is not None
    canonical = state.object(newest.canonical) if newest.canonical else None
    verdict = None if canonical is None else canonical.verdict
    yield "cancels by itself" if outcome.state is OutcomeState.CANCELLED else ""
    if outcome.state is OutcomeState.SUCCEEDED:
        yield "" if verdict is not None and verdict.cause is None else "success without a verdict"
        return
    assert outcome.cause is not None
    match outcome.cause.kind:
        case CauseKind.LAUNCH_FAILED:
            opened = canonical is not None and openings(case, canonical.id)
            refused = any("no" in str(c.reply) for c in calls(case, Open))
            yield "a launch that ran has not failed" if opened and not refused else ""
        case CauseKind.UNKNOWN:
            gone = canonical is not None and is_accounted(case, canonical) and verdict is None
            yield "" if gone else "gives up what may still run"
        case CauseKind.REJECTED:
            yield "" if canonical is None else "rejects what it launched"
        case kind:
            told = None if verdict is None or verdict.cause is None else verdict.cause.kind
            yield "" if kind is told else "a cause that nobody gave"


def not_quiet(case: Case) -> Iterator[str]:
    """What speaks against quiet [nothing-forgotten] [no-overlap]."""
    state = case.record.state
    yield "" if state.outcome is not None else "quiet without an outcome"
    yield "" if known_before(case, state.outcome_revision) else "the look is older than the outcome"
    ours = [s for s in case.view.snapshot.objects if s.mark.belongs_to(state.key)]
    alive = [s.id for s in ours if not s.idle]
    yield f"quiet with {alive} alive" if alive else ""
    others = [o.id for o in state.objects if not is_accounted(case, o)]
    yield f"quiet before {others} are accounted for" if others else ""
    landing = [c.number for c in calls(case, Start, Open) if not is_over(case, c)]
    yield f"quiet while calls {landing} may land" if landing else ""
    if case.context.capabilities.permits:
        left = [(o, p) for o, p in state.permits if not taken_back(case, o, p)]
        yield f"quiet with permits {left} in force" if left else ""
    if state.outcome is not None and state.outcome.state is OutcomeState.CANCELLED:
        second = [c for c in calls(case, StopJob) if c.intent == StopJob(2)]
        done = any(
            isinstance(c.reply, Done) and known_before(case, c.reply_revision) for c in second
        )
        yield "" if done else "quiet before the second round"
    unknown = case.predecessor == "missing" and not state.settled_revision
    waited_for = case.predecessor == "unquiet" or unknown
    yield "quiet before its earlier try" if waited_for else ""


def check_settle(case: Case, _taken: Step) -> Iterator[str]:
    """Quiet, on record, and nothing left for a person."""
    state = case.record.state
    yield from not_quiet(case)
    yield "" if state.quiet_at is not None else "settles before it is quiet"
    cancelled = state.outcome is not None and state.outcome.state is OutcomeState.CANCELLED
    foreign = [o for o in state.objects if not state.knows(o.mark)]
    undisposed = [o.id for o in foreign if not (cancelled and is_accounted(case, o))]
    yield f"settles with {undisposed} foreign" if undisposed else ""
    yield "" if not unmatched(case) else "settles with attempts unmatched"


def unmatched(case: Case) -> list[int]:
    """Attempts of which neither an answer nor an object is known, and which nobody closed."""
    state = case.record.state
    found = []
    for attempt in (a for s in state.submissions for a in s.attempts):
        call = state.call(attempt.call)
        assert call is not None
        answered = call.answered or isinstance(call.reply, NotSent)
        seen = any(o.mark.tag == attempt.tag for o in state.objects)
        if not (answered or seen or attempt.never_landed):
            found.append(attempt.number)
    return found


def check_absence(case: Case, taken: Step) -> Iterator[str]:
    """Judged from a Find begun after the record knew it and after its calls were over."""
    assert isinstance(taken, Decide)
    state, body = case.record.state, taken.body
    if isinstance(body, NeverLanded):
        tag = next(a.tag for s in state.submissions for a in s.attempts if a.number == body.attempt)
        (call,) = [
            c for c in calls(case, Start) if isinstance(c.intent, Start) and c.intent.tag == tag
        ]
        yield "" if case.record.job.unmatched is Unmatched.AUTO else "a person was to judge"
        yield "" if is_over(case, call) and known_before(case, call.revision) else "may still land"
        shown = [s for s in case.view.snapshot.objects if s.mark.tag == tag]
        yield "it landed" if shown or body.attempt not in unmatched(case) else ""
        return
    assert isinstance(body, (Gone, Lost))
    known = state.object(body.object)
    assert known is not None
    yield "judges what is shown" if case.view.shown(known.id) is not None else ""
    yield "" if known_before(case, known.first_revision) else "the look is older than the object"
    yield "" if all(is_over(case, c) for c in openings(case, known.id)) else "it may still open"
    yield "judged before" if body.began != case.view.began else ""
    if isinstance(body, Gone):
        yield "gone, though it started" if known.started else ""
        yield "gone, though it may have been opened" if openings(case, known.id) else ""
        permits = [p for o, p in state.permits if o == known.id]
        if case.context.capabilities.permits and state.knows(known.mark):
            never = all(won(case, known.id, p) for p in permits)
            yield "" if never else "gone with a permit in force"
        else:
            yield "" if known.phase is Phase.GATED and not known.born_open else "gone from the open"


def check_choose(case: Case, taken: Step) -> Iterator[str]:
    """The lowest attempt, once, of what is shown or has ended."""
    assert isinstance(taken, Decide)
    wanted = getattr(taken.body, "object", None)
    known = case.record.state.object(wanted) if wanted else None
    assert known is not None
    yield "chooses what must not run" if known.retired or known.born_open else ""
    lower = [
        o.id
        for o in case.record.state.objects
        if case.record.state.knows(o.mark)
        and (o.mark.attempt, o.id) < (known.mark.attempt, known.id)
        and not (o.retired or o.born_open)
        and case.view.shown(o.id) is not None
    ]
    yield f"{lower} come first" if lower else ""


CHECKS: dict[StepName, Callable[[Case, Step], Iterator[str]]] = {
    StepName.OPEN: check_open,
    StepName.STOP: check_stop,
    StepName.CONCLUDE: check_conclude,
    StepName.QUIET: lambda case, _taken: not_quiet(case),
    StepName.SETTLE: check_settle,
    StepName.GONE: check_absence,
    StepName.LOST: check_absence,
    StepName.NEVER_LANDED: check_absence,
    StepName.CHOOSE: check_choose,
}
