"""Folding evidence commutes: in whatever order facts arrive, the record ends up knowing the same.

Decisions are fixed (a record at some point of its life), evidence is drawn: sightings of three
attempts' objects, a twin and a foreign one by Finds of any age, and replies to any of its calls.
Only the revisions at which things were filed may tell two orders apart. [evidence-only]
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st

from airflow_dispatch.core import folding, sighting
from airflow_dispatch.core.commits import (
    Body,
    Cancelled,
    Concluded,
    Gone,
    Lost,
    NeverLanded,
    OpenedOutside,
    Quieted,
    Replied,
    Settled,
    Sight,
    Sighted,
)
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
    State,
    Unclear,
    Verdict,
)
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
    launched,
    mark,
    opened,
    opening,
    record,
    replied,
    running,
    sight,
    sighted,
    start,
    stop_job,
    view,
    withdraw,
)

ALL_CALLS: list[Body] = [
    *opened(Unclear("timeout")),
    start(3, 2),
    start(4, 3),
    opening(5, deadline=120),
    withdraw(6),
]
QUIET: list[Body] = [*ALL_CALLS, Concluded(SUCCEEDED), Quieted(at(50)), Settled()]
HISTORIES: list[list[Body]] = [
    launched()[:2],
    ALL_CALLS,
    [*ALL_CALLS, sighted(40, running()), Lost("o1", at(50))],
    [*launched(2), Gone("o1", at(50)), Gone("o2", at(50))],
    [*chosen(), OpenedOutside("o1"), start(2, 2), NeverLanded(1, 2)],
    [*ALL_CALLS, Cancelled("stop it"), stop_job(7, 1), stop_job(8, 2)],
    QUIET,
    [*QUIET[:-3], sighted(45, ended()), replied(6, STARTED), *QUIET[-3:]],
]
MARKS = {
    "o1": mark(1),
    "o1b": mark(1),
    "o2": mark(2),
    "o3": mark(3),
    "f1": foreign().mark,
}
OF_ATTEMPT = {1: ("o1", "o1b"), 2: ("o2",), 3: ("o3",)}

seconds = st.integers(30, 70)
causes = st.sampled_from([None, EXIT_1])
verdicts = st.builds(Verdict, st.sampled_from(Source), causes, st.none() | seconds.map(at))
incarnations = st.builds(
    Incarnation,
    st.integers(0, 2),
    started=st.booleans(),
    started_at=st.none() | seconds.map(at),
    host=st.sampled_from(["", "n1", "n2"]),
    verdict=st.none() | verdicts,
    idle=st.booleans(),
)


@st.composite
def sights(draw: st.DrawFn) -> Sight:
    """Any of the objects, under its own mark."""
    wanted = draw(st.sampled_from(sorted(MARKS)))
    found = draw(st.lists(incarnations, max_size=2, unique_by=lambda one: one.start_count))
    found.sort(key=lambda one: one.start_count)
    phase, note = draw(st.sampled_from(Phase)), draw(st.sampled_from(["", "a", "b"]))
    return Sight(wanted, MARKS[wanted], phase, tuple(found), note)


finds = st.builds(
    Sighted,
    seconds.map(at),
    st.lists(sights(), min_size=1, max_size=3, unique_by=lambda one: one.id).map(tuple),
)
general: st.SearchStrategy[Reply] = st.sampled_from(
    [Unclear("x"), Unclear("y"), NotSent("z"), Refused("a", permanent=False), Done()]
)
decided: st.SearchStrategy[Reply] = st.sampled_from([STARTED, WON, Decided(((1, True),))])


@st.composite
def evidence(draw: st.DrawFn, base: Record) -> Sighted | Replied:
    """What a Find showed, or a reply to any call that was ever made."""
    if draw(st.booleans()):
        return draw(finds)
    number = draw(st.integers(1, base.state.calls_made))
    attempt = next(
        (a.number for s in base.state.submissions for a in s.attempts if a.call == number), None
    )
    if attempt is None:
        return Replied(number, draw(general | decided))
    created = st.builds(Created, st.sampled_from(OF_ATTEMPT[attempt]), st.booleans())
    return Replied(number, draw(general | created))


@st.composite
def cases(draw: st.DrawFn, most: int) -> tuple[Record, list[Sighted | Replied]]:
    """A record and evidence that is still to arrive."""
    base = record(*draw(st.sampled_from(HISTORIES)))
    return base, draw(st.lists(evidence(base), min_size=1, max_size=most))


def told(made: Record) -> State:
    """The state without the revisions at which things were filed."""
    return replace(
        made.state,
        objects=tuple(replace(known, first_revision=0) for known in made.state.objects),
        calls=tuple(replace(call, reply_revision=0) for call in made.state.calls),
    )


verdict = Verdict(Source.SCHEDULER, EXIT_1)
SECOND_START = running("o1", count=1)
SECOND_ENDED = sight("o1", Phase.ENDED, Incarnation(1, verdict=verdict, idle=True))


@given(cases(4))
@example((record(*HISTORIES[-1]), [sighted(45, SECOND_START), sighted(46, SECOND_ENDED)]))
def test_every_order_gives_the_same_state(case: tuple[Record, list[Sighted | Replied]]) -> None:
    """All permutations of what arrives."""
    base, arriving = case
    states = [told(also(base, order)) for order in permutations(arriving)]
    assert all(state == states[0] for state in states)


@given(cases(12), st.randoms(use_true_random=False))
def test_a_long_shuffle_gives_the_same_state(
    case: tuple[Record, list[Sighted | Replied]], random: Random
) -> None:
    """More evidence than can be permuted, in one other order."""
    base, arriving = case
    shuffled = list(arriving)
    random.shuffle(shuffled)
    assert told(also(base, shuffled)) == told(also(base, arriving))


@given(cases(4))
def test_what_was_told_already_changes_nothing(
    case: tuple[Record, list[Sighted | Replied]],
) -> None:
    """The same evidence again, in any number and order: a call lands twice, a reply is repeated."""
    base, arriving = case
    once = also(base, arriving)
    assert also(once, [*reversed(arriving), *arriving]).state == once.state


@given(cases(6))
def test_facts_only_grow(case: tuple[Record, list[Sighted | Replied]]) -> None:
    """Nothing that was known is unlearned, and no decision is touched."""
    record_, arriving = case
    for body in arriving:
        later = folding.apply(record_, building.commit(body))
        assert later.revision == record_.revision + 1
        for known in record_.state.objects:
            grown = later.state.object(known.id)
            assert grown is not None
            assert_grown(known, grown)
        for call in record_.state.calls:
            answered = later.state.call(call.number)
            assert answered is not None
            assert not call.answered or answered.answered
        assert untouched(later.state) == untouched(record_.state)
        assert later.state.quiet_at in (None, record_.state.quiet_at)
        record_ = later


def assert_grown(known: ObjectState, grown: ObjectState) -> None:
    """The later knowledge of an object holds all of the earlier one."""
    assert grown.born_open >= known.born_open
    assert known.shown_at is None or (grown.shown_at or known.shown_at) >= known.shown_at
    later = {incarnation.start_count: incarnation for incarnation in grown.incarnations}
    for incarnation in known.incarnations:
        now = later[incarnation.start_count]
        assert (now.started, now.idle) >= (incarnation.started, incarnation.idle)
        if incarnation.verdict is not None:
            assert now.verdict is not None
            assert now.verdict.key <= incarnation.verdict.key
    fields = ("mark", "first_revision", "retired", "may_have_opened", "opened_outside")
    for name in (*fields, "gone_at", "lost_at"):
        assert getattr(grown, name) == getattr(known, name)


def untouched(state: State) -> State:
    """The state without what evidence may change."""
    return replace(
        state,
        objects=(),
        calls=tuple(replace(call, reply=None, reply_revision=0) for call in state.calls),
        quiet_at=None,
        settled_revision=0,
    )


@given(cases(3), finds)
def test_what_was_filed_is_no_news(
    case: tuple[Record, list[Sighted | Replied]], find: Sighted
) -> None:
    """The next look at the same world commits nothing.

    Otherwise two supervisors would keep each other from deciding for ever.
    """
    base, arriving = case
    base = also(base, arriving)
    first = sighting.news(base, view(base, 200, *find.objects))
    if first is None:
        assert timeless(also(base, [replace(find, began=at(200))])) == timeless(base)
    else:
        base = also(base, [first])
    assert sighting.news(base, view(base, 201, *find.objects)) is None


def timeless(made: Record) -> State:
    """The state but for when its objects were last shown."""
    objects = tuple(replace(known, shown_at=None) for known in made.state.objects)
    return replace(made.state, objects=objects)
