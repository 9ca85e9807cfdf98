"""Random schedules of the real supervisor, core and store against a cluster that loses.

Delays and doubles calls.

Two supervisors without any lease are stepped from port call to port call, in an order drawn from a
seed; each may die at any of them, and a new one begins. Meanwhile runs end, the task is cleared or
its run cancelled, calls get lost, land late or twice, objects vanish. After every step the promises
are read off the cluster itself; in the end everything heals, and then every record must settle.
[no-lock-needed] [no-overlap] [authorized-only] [nothing-forgotten] [no-state-outside]
"""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from random import Random

import pytest

from airflow_dispatch.core.record import Phase, Record
from airflow_dispatch.errors import ClusterUnavailable, StoreUnavailable
from airflow_dispatch.supervisor import acts, passes, resolve
from airflow_dispatch.supervisor.passes import Pace
from airflow_dispatch.supervisor.services import Services
from airflow_dispatch.testing.memory_cluster import Held
from tests.unit.supervisor.bench import JOB, TASK, Bench, key

SEEDS_FAST = range(30)
SEEDS_MORE = range(30, 300)
STEPS = 2_500
HEALING_STEPS_MAX = 3_000
ACTING = 0.94
TRIES_MAX = 4
CALLS = ("start", "open", "stop", "stop_job", "withdraw")


@types.coroutine
def turn() -> Generator[None, None, None]:
    """A point where another may go on, or where this one may die."""
    yield


class Turning:
    """A port with a turn before each call lands and another before its reply is heard."""

    def __init__(self, port: object) -> None:
        self._port = port

    def __getattr__(self, name: str) -> object:
        made = getattr(self._port, name)
        if name in ("refusals", "places", "name"):
            return made

        async def call(*args: object, **words: object) -> object:
            await turn()
            reply = await made(*args, **words)
            await turn()
            return reply

        return call


@dataclass
class World:
    """One task, its records, two supervisors, and the hands of a seed."""

    random: Random
    bench: Bench = field(default_factory=Bench)
    made: int = 0
    working: list[Coroutine[None, None, None]] = field(default_factory=list)
    dead: list[Coroutine[None, None, None]] = field(default_factory=list)
    story: list[str] = field(default_factory=list)

    def services(self) -> Services:
        """Those of a new supervisor, whose every port call can be its last."""
        self.made += 1
        plain = self.bench.services(f"s{self.made}-")
        turning = {name: Turning(getattr(plain, name)) for name in ("store", "tasks")}
        return Services(
            clusters=_Clusters(Turning(self.bench.cluster)),  # type: ignore[arg-type]  # a port by duck
            clock=plain.clock,
            tokens=plain.tokens,
            journal=plain.journal,
            owner=plain.owner,
            **turning,  # type: ignore[arg-type]  # ports by duck
        )

    async def supervisor(self) -> None:
        """Resolve the current try and pass over all records, for ever."""
        services, pace = self.services(), Pace()
        while True:
            try:
                row = self.bench.tasks.rows[TASK]
                await resolve.resolve(
                    services, resolve.Try(TASK, row.ti_id or "", row.try_number), JOB
                )
                for generation in range(1, row.try_number + 1):
                    if await services.store.load(key(generation)) is not None:
                        await passes.one(services, key(generation), lease=None, pace=pace)
            except (  # noqa: PERF203 - each round fails by itself
                ClusterUnavailable,
                StoreUnavailable,
                resolve.NotCurrent,
            ):
                await turn()

    def step(self) -> None:
        """One supervisor goes on to its next port call."""
        at = self.random.randrange(len(self.working))
        self.working[at].send(None)

    def act(self) -> None:
        """Something happens in the world."""
        cluster, random = self.bench.cluster, self.random
        hands: dict[Callable[[], None], int] = {
            lambda: self.bench.pass_time(random.choice((0.5, 3, 12, 50))): 30,
            self._ends_one: 10,
            self._dies: 3,
            lambda: cluster.lose_reply(random.choice(CALLS)): 12,
            lambda: cluster.hold_back(random.choice(CALLS)): 12,
            cluster.land: 8,
            lambda: cluster.land_twice(random.choice(CALLS)): 4,
            cluster.fail_finds: 4,
            self._vanishes: 2,
            self._node_lost: 2,
            self._clear: 3,
            self._cancel: 1,
        }
        random.choices(list(hands), list(hands.values()))[0]()

    def _dies(self) -> None:
        """A power cut: this supervisor is never stepped again, and another begins."""
        at = self.random.randrange(len(self.working))
        self.dead.append(self.working[at])
        self.working[at] = self.supervisor()
        self._tell("a supervisor dies")

    def _node_lost(self) -> None:
        living = [h for h in self.bench.cluster.objects.values() if h.phase is Phase.RUNNING]
        if living:
            self.bench.cluster.node_lost(living[0].id, idle=False)
            self._tell(f"{living[0].id} is called lost and lives on")

    def _ends_one(self) -> None:
        living = [h for h in self.bench.cluster.objects.values() if h.phase is Phase.RUNNING]
        if living:
            self.bench.cluster.run_ends(living[0].id, self.random.choice((0, 0, 1)))
            self._tell(f"{living[0].id} ends")

    def _vanishes(self) -> None:
        gated = [h for h in self.bench.cluster.objects.values() if h.phase is Phase.GATED]
        if gated:
            self.bench.cluster.vanish(gated[0].id)
            self._tell(f"{gated[0].id} vanishes")

    def _clear(self) -> None:
        row = self.bench.tasks.rows[TASK]
        number = row.try_number + 1
        if number <= TRIES_MAX:
            self.bench.row(ti_id=f"ti-{number}", try_number=number, max_tries=number)
            self._tell(f"cleared: try {number}")

    def _cancel(self) -> None:
        if _ran(self.bench.store.load(key(1))) is not None:
            _ran(acts.cancel(self.bench.services("person-"), key(1), actor="person", reason="no"))
            self._tell("cancelled")

    def _tell(self, text: str) -> None:
        self.story.append(text)

    def records(self) -> list[Record]:
        """Every record there is."""
        tries = range(1, TRIES_MAX + 1)
        found = [_ran(self.bench.store.load(key(generation))) for generation in tries]
        return [record for record in found if isinstance(record, Record)]

    # --- the promises, read off the cluster -------------------------------------------------------

    def check(self) -> None:
        """What no supervisor can see, as it is now."""
        living = [h for h in self.bench.cluster.objects.values() if _lives(h)]
        assert len(living) <= 1, f"[no-overlap] {living} after {self.story}"
        records = {record.state.key.generation: record for record in self.records()}
        for held in living:
            state = records[held.mark.generation].state
            canonical = [s.canonical for s in state.submissions]
            assert held.id in canonical, f"[authorized-only] {held.id} runs after {self.story}"
        for record in records.values():
            if record.state.settled_revision:
                mine = [h for h in self.bench.cluster.objects.values() if _of(h, record)]
                left = [h for h in mine if h.phase is not Phase.ENDED]
                assert not left, f"[nothing-forgotten] {left} after {self.story}"

    def heal(self) -> None:
        """Faults end; one supervisor goes on alone, and everything must settle in bounded time."""
        cluster = self.bench.cluster
        cluster.faults = type(cluster.faults)()
        self.dead += self.working
        self.working = [self.supervisor()]
        for _ in range(HEALING_STEPS_MAX):
            self.step()
            self.check()
            if self.random.random() < 0.2:
                self.bench.pass_time(20)
                cluster.land()
            if self.random.random() < 0.05:
                self._ends_one()
            records = self.records()
            if records and all(record.state.settled_revision for record in records):
                return
        raise AssertionError(f"never settled: {[r.state for r in self.records()]} {self.story}")


class _Clusters:
    """The one cluster."""

    def __init__(self, cluster: object) -> None:
        self._cluster = cluster

    async def get(self, name: str) -> object:
        return self._cluster

    async def capabilities(self, name: str) -> object:
        return await self._cluster.probe()  # type: ignore[attr-defined]  # a port by duck


def _lives(held: Held) -> bool:
    return held.phase in (Phase.RUNNING, Phase.STOPPING)


def _of(held: Held, record: Record) -> bool:
    return held.mark.belongs_to(record.state.key)


def _ran(work: Coroutine[object, None, object]) -> object:
    """What a coroutine returns that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited")


@pytest.mark.parametrize(
    "seed",
    [*SEEDS_FAST, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in SEEDS_MORE)],
)
def test_promises_hold_on_a_random_schedule(seed: int) -> None:
    """No overlap, nothing unauthorized, nothing forgotten.

    And everything settles once faults end.
    """
    world = World(Random(seed))
    world.working = [world.supervisor() for _ in range(2)]
    for _ in range(STEPS):
        if world.random.random() < ACTING:
            world.step()
        else:
            world.act()
        world.check()
    world.heal()
    for work in (*world.working, *world.dead):
        work.close()
