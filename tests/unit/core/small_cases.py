"""Every combination of a small record and a small view, for tests that look at all of them.

Three families: no canonical object yet, a canonical object without an outcome, and after an
outcome. A case is what a supervisor has in hand when it decides: the record with the view's
evidence filed, the view, the context. The record is folded from bodies, so it is one that can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product

from airflow_dispatch.core import sighting
from airflow_dispatch.core.commits import (
    Authorized,
    Body,
    Cancelled,
    Chosen,
    Concluded,
    Gone,
    Lost,
    NeverLanded,
    Quieted,
    Retired,
    Settled,
    Sight,
)
from airflow_dispatch.core.record import (
    Created,
    Done,
    Incarnation,
    NotSent,
    Phase,
    Record,
    Refused,
    Source,
    Unclear,
    Verdict,
)
from airflow_dispatch.core.settlement import Predecessor
from airflow_dispatch.core.steps import Context
from airflow_dispatch.core.view import View
from tests.unit.core.building import (
    CAPABILITIES,
    EXIT_1,
    FAILED,
    JOB,
    MANUAL_JOB,
    STARTED,
    SUCCEEDED,
    WON,
    also,
    at,
    begun,
    context,
    ended,
    foreign,
    gated,
    mark,
    opening,
    record,
    replied,
    running,
    sight,
    sighted,
    start,
    stop,
    stop_job,
    view,
    withdraw,
)

EARLY, LATE, LAST = 33.0, 400.0, 1_500.0
"""After a start's deadline, within its bound; after all calls; after a lost run's limit, too."""
GENERATION = 2
EXIT_2 = Verdict(Source.SCHEDULER, EXIT_1, at(EARLY - 1))


@dataclass(frozen=True)
class Case:
    """What a supervisor has in hand, and in words how it was made."""

    words: str
    record: Record
    view: View
    context: Context
    predecessor: str
    """none, quiet, unquiet or missing: the answer that `settlement` has to find by itself."""


Maker = Callable[[], Case]
"""Makes a case when asked to: who looks at some of them only does not pay for the others."""


def _own(wanted: Sight) -> Sight:
    """The sight under this generation's mark, if it is not one of another."""
    if wanted.mark.generation != 1:
        return wanted
    return replace(wanted, mark=replace(wanted.mark, generation=GENERATION))


@cache
def _earlier(kind: str) -> tuple[Predecessor, ...]:
    if kind in ("none", "missing"):
        return ()
    bodies: list[Body] = [Cancelled("cleared"), stop_job(1, 1), replied(1, Done())]
    bodies += [stop_job(2, 2), replied(2, Done())]
    made = record(*(bodies if kind == "quiet" else bodies[:1]))
    return (Predecessor(made, view(made, EARLY), CAPABILITIES),)


class History:
    """A record made of named parts, once for each way in which it can begin."""

    def __init__(self, bodies: Mapping[str, list[Body]]) -> None:
        self.words = "; ".join(bodies)
        self._bodies = [body for part in bodies.values() for body in part]
        self._made: dict[tuple[int | None, bool], Record] = {}

    def made(self, predecessor: int | None, *, manual: bool) -> Record:
        """The record with that predecessor and policy."""
        how = (predecessor, manual)
        if how not in self._made:
            job = MANUAL_JOB if manual else JOB
            first = begun(generation=GENERATION, predecessor=predecessor, job=job)
            self._made[how] = record(*self._bodies, first=first)
        return self._made[how]


def case(
    history: History,
    *,
    shown: Mapping[str, tuple[Sight, ...]],
    began: float = LATE,
    behind: int = 0,
    predecessor: str = "none",
    asked: bool = False,
    permits: bool = True,
    manual: bool = False,
) -> Case:
    """The case of these parts, each named; `behind`: how many commits the view's base is older."""
    made = history.made(None if predecessor == "none" else 1, manual=manual)
    sights = tuple(_own(one) for part in shown.values() for one in part)
    seen = view(made, began, *sights, revision=max(made.revision - behind, 1))
    news = sighting.news(made, seen)
    made = made if news is None else also(made, [news])
    around = context(
        capabilities=replace(CAPABILITIES, permits=permits),
        predecessors=_earlier(predecessor),
        asked=asked,
    )
    facts = f"{began=} {behind=} {predecessor=} {asked=} {permits=} {manual=}"
    words = "; ".join([history.words, *shown, facts])
    return Case(words, made, seen, around, predecessor)


# --- the parts ------------------------------------------------------------------------------------


def seeking_replies(call: int) -> dict[str, list[Body]]:
    """What is known of a start call."""
    return {
        f"{call} unanswered": [],
        f"{call} unclear": [replied(call, Unclear("timeout"))],
        f"{call} busy": [replied(call, Refused("busy", permanent=False))],
        f"{call} refused": [replied(call, Refused("no", permanent=True))],
        f"{call} created": [replied(call, Created(f"o{call}"))],
        f"{call} born open": [replied(call, Created(f"o{call}", gated=False))],
        f"{call} not sent": [replied(call, NotSent("drained"))],
        f"{call} never landed": [NeverLanded(1, call)],
    }


IDLE = sight("f1", Phase.ENDED, Incarnation(0, verdict=EXIT_2, idle=True), of=foreign().mark)
OTHERS: dict[str, tuple[Sight, ...]] = {
    "nothing else": (),
    "foreign": (foreign(),),
    "foreign over": (IDLE,),
}


def phases(wanted: str) -> dict[str, tuple[Sight, ...]]:
    """Ways in which a Find shows an object, or does not."""
    unreadable = sight(wanted, Phase.ENDED, Incarnation(0, verdict=EXIT_2), unreadable=True)
    return {
        f"no {wanted}": (),
        f"{wanted} gated": (gated(wanted),),
        f"{wanted} queued": (sight(wanted, Phase.QUEUED),),
        f"{wanted} running": (running(wanted),),
        f"{wanted} stopping": (sight(wanted, Phase.STOPPING, *running().incarnations),),
        f"{wanted} ended": (ended(wanted),),
        f"{wanted} failed": (ended(wanted, EXIT_1, idle=False),),
        f"{wanted} unreadable": (unreadable,),
    }


def some(parts: Mapping[str, tuple[Sight, ...]], *words: str) -> dict[str, tuple[Sight, ...]]:
    """Those whose words end so."""
    return {name: part for name, part in parts.items() if name.endswith(words)}


KNOWN: dict[str, list[Body]] = {
    "known by reply": [],
    "seen gated": [sighted(20, _own(gated()))],
    "seen running": [sighted(20, _own(running()))],
    "seen ended": [sighted(20, _own(ended()))],
    "judged gone": [Gone("o1", at(20))],
    "judged lost": [Lost("o1", at(20))],
    "lost while running": [sighted(20, _own(running())), Lost("o1", at(25))],
}
DUPLICATES: dict[str, tuple[list[Body], tuple[Sight, ...]]] = {
    "alone": ([], ()),
    "duplicate": ([sighted(21, _own(gated("o1b")))], (gated("o1b"),)),
    "retired": (
        [sighted(21, _own(gated("o1b"))), Retired("o1b", "duplicate of o1")],
        (gated("o1b"),),
    ),
    "retired and ended": (
        [sighted(21, _own(ended("o1b", EXIT_1))), Retired("o1b", "duplicate of o1")],
        (),
    ),
    "retired, ended and back": (
        [sighted(21, _own(ended("o1b", EXIT_1))), Retired("o1b", "duplicate of o1")],
        (gated("o1b"),),
    ),
    "another generation": ([], (gated("x", of=mark(1, generation=9)),)),
    "retired and forgotten": (
        [sighted(21, _own(running("o1b"))), Retired("o1b", "duplicate of o1")],
        (),
    ),
}
OPENINGS: dict[str, list[Body]] = {
    "not opened": [],
    "opening": [opening(2, deadline=60)],
    "opened": [opening(2, deadline=60), replied(2, Done())],
    "open unclear": [opening(2, deadline=60), replied(2, Unclear("timeout"))],
    "open not sent": [opening(2, deadline=60), replied(2, NotSent("drained"))],
    "open busy": [opening(2, deadline=60), replied(2, Refused("busy", permanent=False))],
    "open refused": [opening(2, deadline=60), replied(2, Refused("no", permanent=True))],
}
WITHDRAWALS: dict[str, list[Body]] = {
    "not withdrawn": [],
    "withdrawing": [withdraw(3)],
    "withdrawn": [withdraw(3), replied(3, WON)],
    "withdrawn too late": [withdraw(3), replied(3, STARTED)],
}
LAUNCHED: list[Body] = [Authorized(1), start(1), replied(1, Created("o1"))]


# --- the families ---------------------------------------------------------------------------------


def seeking() -> Iterator[Maker]:
    """No canonical object yet: up to two attempts, what became of them, what is shown."""
    yield partial(case, History({"new": []}), shown={"nothing": ()})
    first, second = seeking_replies(1), {"only one": [], **seeking_replies(2)}
    shown_first = some(phases("o1"), "no o1", "gated", "running", "ended")
    shown_second = some(phases("o2"), "no o2", "gated", "failed")
    for one, two in product(first, second):
        bodies: dict[str, list[Body]] = {
            "authorized": [Authorized(1)],
            one: [start(1), *first[one]],
            two: [] if two == "only one" else [start(2, 2), *second[two]],
        }
        history = History(bodies)
        seconds = shown_second if two != "only one" else {"no o2": ()}
        for a, b, other in product(shown_first, seconds, ("nothing else", "foreign")):
            shown = {a: shown_first[a], b: seconds[b], other: OTHERS[other]}
            for began, behind, manual in product([EARLY, LATE], [0, 1], [False, True]):
                yield partial(case, history, shown=shown, began=began, behind=behind, manual=manual)


def following() -> Iterator[Maker]:
    """A canonical object without an outcome."""
    seen = phases("o1")
    for known, opened, withdrawn in product(KNOWN, OPENINGS, WITHDRAWALS):
        if not _possible(known, opened, withdrawn):
            continue
        for twin in DUPLICATES:
            bodies: dict[str, list[Body]] = {
                "launched": LAUNCHED,
                "chosen": [Chosen(1, "o1")],
                twin: DUPLICATES[twin][0],
                opened: OPENINGS[opened],
                withdrawn: WITHDRAWALS[withdrawn],
                known: KNOWN[known],
            }
            history = History(bodies)
            for now, facts in product(seen, FACTS if twin == "alone" else FACTS[:4]):
                shown = {now: seen[now], "twin": DUPLICATES[twin][1]}
                yield partial(case, history, shown=shown, **facts)  # type: ignore[arg-type]  # by name


FACTS: list[dict[str, object]] = [
    {"began": EARLY},
    {"began": LATE},
    {"began": LATE, "behind": 1},
    {"began": LATE, "behind": 99},
    {"began": LATE, "permits": False},
    {"began": LAST},
    {"began": LATE, "asked": True},
    {"began": LATE, "predecessor": "quiet"},
    {"began": LATE, "predecessor": "unquiet"},
    {"began": LATE, "predecessor": "missing"},
]


def _possible(known: str, opened: str, withdrawn: str) -> bool:
    """Whether a record can hold these three at once."""
    if withdrawn != "not withdrawn" and opened == "not opened":
        return False
    never = opened == "not opened" or (opened, withdrawn) == ("open not sent", "withdrawn")
    return never or known != "judged gone"


def cleaning() -> Iterator[Maker]:
    """After an outcome."""
    seen = phases("o1")
    outcomes: dict[str, list[Body]] = {
        "succeeded": [Concluded(SUCCEEDED)],
        "failed": [Concluded(FAILED)],
        "cancelled": [Cancelled("stop it")],
        "cancelled, stopping": [Cancelled("stop it"), stop_job(4, 1), replied(4, Done())],
        "cancelled, stopped": [
            *(Cancelled("stop it"), stop_job(4, 1), replied(4, Done())),
            *(stop_job(5, 2), replied(5, Done())),
        ],
        "quiet": [Concluded(SUCCEEDED), Quieted(at(30))],
        "settled": [Concluded(SUCCEEDED), Quieted(at(30)), Settled()],
    }
    twins = [twin for twin in DUPLICATES if twin not in ("duplicate", "another generation")]
    parts = product(outcomes, KNOWN, ("not opened", "opening", "opened"), WITHDRAWALS, twins)
    for outcome, known, opened, withdrawn, twin in parts:
        if not _possible(known, opened, withdrawn) or _shut(outcome, opened, withdrawn):
            continue
        bodies: dict[str, list[Body]] = {
            "launched": LAUNCHED,
            "chosen": [Chosen(1, "o1")],
            twin: DUPLICATES[twin][0],
            opened: OPENINGS[opened] or [stop(2, "o1")],
            withdrawn: WITHDRAWALS[withdrawn] or [stop(3, "o1b")],
            known: KNOWN[known],
            outcome: outcomes[outcome],
        }
        history = History(bodies)
        for now, other in product(
            some(seen, "no o1", "gated", "running", "ended", "failed"), OTHERS
        ):
            shown = {now: seen[now], "twin": DUPLICATES[twin][1], other: OTHERS[other]}
            number = len(known) + len(now) + len(other) + len(twin)
            yield partial(case, history, shown=shown, **FACTS[number % len(FACTS)])  # type: ignore[arg-type]  # by name


def _shut(outcome: str, opened: str, withdrawn: str) -> bool:
    """Leave out what differs from another case in nothing that these outcomes look at."""
    return outcome in ("failed", "quiet") and (opened == "opening" or withdrawn == "withdrawing")
