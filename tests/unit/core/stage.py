"""A stage for bad schedules: records, a scheduler and supervisors, moved one move at a time.

Everything that can come apart in the world is a move of its own here: looking, deciding, sending a
call, its landing, hearing its answer, time. So a test puts a schedule together by hand, and the
pure core decides. After each landing the stage checks that no two runs of the task go on
[no-overlap]. The scheduler can forget and roll back; permits can be taken away from it, because
they mask most other faults.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from airflow_dispatch.core import decision, folding, sighting
from airflow_dispatch.core.commits import Body, Cancelled, Commit, Intended, Replied, Sight
from airflow_dispatch.core.identity import Mark
from airflow_dispatch.core.record import (
    Call,
    Created,
    Decided,
    Done,
    Incarnation,
    NotSent,
    Open,
    Outcome,
    OutcomeState,
    Permit,
    Phase,
    Record,
    Refused,
    Reply,
    Source,
    Start,
    Stop,
    StopJob,
    Verdict,
    Withdraw,
)
from airflow_dispatch.core.settlement import Predecessor
from airflow_dispatch.core.steps import Carry, Context, Decide, Rest, Send, Step, Wait, WaitKind
from airflow_dispatch.core.view import Capabilities, Snapshot, View
from tests.unit.core import building
from tests.unit.core.building import BOUND, CAPABILITIES, EXIT_1, FINGERPRINT, at, begun

MOVES_MAX = 60


@dataclass
class Thing:
    """One object as it really is; `begun` says that its payload really started."""

    id: str
    mark: Mark
    phase: Phase = Phase.GATED
    begun: bool = False
    verdict: Verdict | None = None
    idle: bool = False

    def sight(self) -> Sight:
        """As a Find shows it."""
        if not self.begun and self.phase is not Phase.ENDED:
            return Sight(self.id, self.mark, self.phase)
        shown = Incarnation(0, started=self.begun, verdict=self.verdict, idle=self.idle)
        return Sight(self.id, self.mark, self.phase, (shown,))


@dataclass(frozen=True)
class Sent:
    """A call that its committer has in hand, or that is on its way."""

    generation: int
    call: Call


@dataclass
class Stage:
    """The world: cluster time, records, things, what is on its way."""

    permits: bool = True
    now: float = 0.0
    records: dict[int, Record] = field(default_factory=dict)
    things: dict[str, Thing] = field(default_factory=dict)
    written: set[tuple[str, Permit]] = field(default_factory=set)
    register: dict[tuple[str, int, int], bool] = field(default_factory=dict)
    """Object, permit, start count: whether that start came first, for ever."""
    commits: int = 0

    @property
    def capabilities(self) -> Capabilities:
        """What the cluster says of itself."""
        return replace(CAPABILITIES, permits=self.permits)

    def begin(self, generation: int = 1, *, predecessor: int | None = None) -> None:
        """A new try's record."""
        first = begun(generation=generation, predecessor=predecessor)
        self.records[generation] = folding.begin(building.commit(first))

    def commit(self, body: Body, *, generation: int = 1, revision: int | None = None) -> bool:
        """Append, if the record is still at `revision` (any, for evidence and acts)."""
        base = self.records[generation]
        if revision is not None and base.revision != revision:
            return False
        self.commits += 1
        made = Commit(f"{self.commits:032x}", at(self.now), "supervisor:x", body)
        self.records[generation] = folding.apply(base, made)
        return True

    # --- what the scheduler does ---

    def land(self, sent: Sent) -> Reply | None:
        """The call takes effect now, unless it is too late; its answer, if there is one."""
        call = sent.call
        if call.deadline is not None and at(self.now) > call.deadline + BOUND:
            return None
        reply = self._landed(sent, call)
        self.check()
        return reply

    def _landed(self, sent: Sent, call: Call) -> Reply:
        match call.intent:
            case Start(submission=n, attempt=m, tag=tag):
                made = building.mark(m, submission=n, generation=sent.generation, tag=tag)
                return Created(self.put(made).id)
            case Open(object=wanted, permit=permit):
                return self._opened(wanted, permit)
            case Stop(object=wanted):
                self.stop(wanted)
            case StopJob():
                for thing in list(self.things.values()):
                    if thing.mark.generation == sent.generation:
                        self.stop(thing.id)
            case Withdraw(object=wanted, permit=permit):
                key = (wanted, permit.number, 0)
                return Decided(((0, self.register.setdefault(key, False)),))
        return Done()

    def put(self, mark: Mark) -> Thing:
        """A new gated object."""
        number = sum(t.mark.generation == mark.generation for t in self.things.values()) + 1
        thing = Thing(f"g{mark.generation}o{number}", mark)
        self.things[thing.id] = thing
        return thing

    def _opened(self, wanted: str, permit: Permit) -> Reply:
        thing = self.things.get(wanted)
        if thing is None or thing.phase is not Phase.GATED:
            return Refused("there is no such gate", permanent=False)
        self.written.add((wanted, permit))
        start = (wanted, permit.number, 0)
        first = start not in self.register
        self.register.setdefault(start, True)
        if self.permits and not first:
            thing.phase, thing.idle = Phase.ENDED, True
            thing.verdict = Verdict(Source.SCHEDULER, EXIT_1)
        else:
            thing.phase, thing.begun = Phase.RUNNING, True
        return Done()

    def stop(self, wanted: str) -> None:
        """End a thing; unknown ids are answered, too."""
        thing = self.things.get(wanted)
        if thing is not None and thing.phase is not Phase.ENDED:
            self.end(wanted, verdict=Verdict(Source.SCHEDULER, EXIT_1))

    def end(self, wanted: str, *, verdict: Verdict | None = None, idle: bool = True) -> None:
        """It ends by itself, with success unless a verdict is given."""
        thing = self.things[wanted]
        thing.phase, thing.idle = Phase.ENDED, idle
        thing.verdict = verdict or Verdict(Source.EXIT_RECORD, None)

    def forget(self, wanted: str) -> Thing:
        """The scheduler lost it; what runs of it goes on unseen."""
        return self.things.pop(wanted)

    def going_on(self) -> list[str]:
        """What really runs, as far as the scheduler knows it."""
        return [t.id for t in self.things.values() if t.begun and not t.idle]

    def check(self) -> None:
        """Never two at once."""
        running = self.going_on()
        assert len(running) < 2, f"two runs at once: {running}"

    def snapshot(self) -> Snapshot:
        """A complete Find that begins now."""
        sights = tuple(thing.sight() for thing in self.things.values())
        return Snapshot(FINGERPRINT, at(self.now), sights)


@dataclass
class Supervisor:
    """One supervisor: what it has read and seen, and what it has in hand."""

    stage: Stage
    generation: int = 1
    record: Record | None = None
    view: View | None = None
    earlier: tuple[Predecessor, ...] = ()
    paced: set[int] = field(default_factory=set)
    tags: int = 0

    def load(self) -> None:
        """Read the record and those of the earlier tries."""
        self.record = self.stage.records[self.generation]

    def look(self) -> None:
        """Read, then find; the view's base is what was read."""
        self.load()
        self.find()

    def find(self) -> None:
        """Find, for a record that was read before, however long ago."""
        assert self.record is not None
        snapshot = self.stage.snapshot()
        self.view = View(snapshot, self.record.revision)
        chain = []
        number = self.record.state.predecessor
        while number is not None:
            made = self.stage.records[number]
            view = View(snapshot, made.revision)
            chain.append(Predecessor(made, view, self.stage.capabilities))
            number = made.state.predecessor
        self.earlier = tuple(chain)

    def file(self) -> bool:
        """File the view's evidence; False if others moved the record, so that it is too old."""
        assert self.record is not None
        assert self.view is not None
        news = sighting.news(self.record, self.view)
        base = self.record.revision
        if news is not None:
            self.stage.commit(news, generation=self.generation)
            base += 1
        self.record = self.stage.records[self.generation]
        return self.record.revision == base

    def answer(self) -> Step:
        """What the core says, by what this one has read and seen."""
        assert self.record is not None
        assert self.view is not None
        self.tags += 1
        context = Context(
            capabilities=self.stage.capabilities,
            tag=f"{id(self)}-{self.tags}",
            predecessors=self.earlier,
            paced=frozenset(self.paced),
        )
        return decision.next(self.record, self.view, context)

    def decide(self) -> Step | None:
        """Commit the answer at the revision it was made from; None if that has passed."""
        assert self.record is not None
        taken = self.answer()
        if isinstance(taken, (Decide, Send)):
            revision = self.record.revision
            if not self.stage.commit(taken.body, generation=self.generation, revision=revision):
                return None
            self.record = self.stage.records[self.generation]
        return taken

    def in_hand(self, taken: Step | None) -> Sent:
        """The call that follows from a step."""
        assert isinstance(taken, (Send, Carry)), taken
        if isinstance(taken, Carry):
            return Sent(self.generation, taken.call)
        assert isinstance(taken.body, Intended)
        call = self.stage.records[self.generation].state.call(taken.body.number)
        assert call is not None
        return Sent(self.generation, call)

    def may_send(self, sent: Sent) -> bool:
        """The last reading before an opening leaves; what is not sent is filed as that."""
        why = decision.reason_not_to_send(self.stage.records[self.generation], sent.call)
        if why:
            self.hear(sent, NotSent(why))
        return not why

    def hear(self, sent: Sent, reply: Reply | None) -> None:
        """File an answer; None: it was lost."""
        if reply is not None:
            self.stage.commit(Replied(sent.call.number, reply), generation=self.generation)

    def move(self) -> Step | None:
        """One whole pass with everything going well: a decision and its call."""
        self.look()
        self.file()
        taken = self.decide()
        if isinstance(taken, (Send, Carry)):
            sent = self.in_hand(taken)
            self.paced.add(sent.call.number)
            if self.may_send(sent):
                self.hear(sent, self.stage.land(sent))
        return taken

    def run(self) -> Wait | Rest:
        """Passes until it waits or rests, a second apart."""
        for _ in range(MOVES_MAX):
            taken = self.move()
            if isinstance(taken, (Wait, Rest)):
                return taken
            self.stage.now += 1
        raise AssertionError(f"no end after {MOVES_MAX} moves")

    def until(self, name: str) -> Sent:
        """Passes up to the step of that name: decided and committed, its call still in hand."""
        return self.in_hand(self.reach(name))

    def reach(self, name: str) -> Step | None:
        """Passes up to the step of that name, which is committed."""
        for _ in range(MOVES_MAX):
            self.look()
            self.file()
            if getattr(self.answer(), "name", None) == name:
                return self.decide()
            self.move()
            self.stage.now += 1
        raise AssertionError(f"never came to {name}")


# --- words of the schedules -----------------------------------------------------------------------


def waits(taken: Step | None) -> list[WaitKind]:
    """What a step waits for."""
    assert isinstance(taken, Wait), taken
    return [wait.kind for wait in taken.waits]


def canonical(record: Record) -> str:
    """The canonical object of the newest submission."""
    newest = record.state.newest
    assert newest is not None
    assert newest.canonical is not None
    return newest.canonical


def running(*, permits: bool = True) -> tuple[Stage, Supervisor]:
    """A first try whose run goes on."""
    stage = Stage(permits=permits)
    stage.begin()
    first = Supervisor(stage)
    assert waits(first.run()) == [WaitKind.RUNNING]
    assert stage.going_on() == ["g1o1"]
    return stage, first


def cleared(stage: Stage, *, generation: int = 2) -> Supervisor:
    """The task is cleared: the old record is cancelled, a new one begins behind it."""
    stage.commit(Cancelled("the task was cleared"), generation=generation - 1)
    stage.begin(generation, predecessor=generation - 1)
    return Supervisor(stage, generation)


def tag_of(sent: Sent) -> str:
    """The tag of a start call."""
    return str(getattr(sent.call.intent, "tag", ""))


def outcome_of(wanted: str) -> Outcome:
    """Success, by that object."""
    return Outcome(OutcomeState.SUCCEEDED, object=wanted)
