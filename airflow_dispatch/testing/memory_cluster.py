"""A cluster in memory, moved by hand, for tests that need to say exactly what the world does.

It keeps the contract of `airflow_dispatch.ports.cluster` (it passes the same conformance suite as
every adapter), has a clock of its own that only `advance` moves, and does nothing by itself: a run
ends when the test says so, or when its time limit or grace has passed on that clock. Nothing in it
is random, sleeps, or looks outside.

The hands are plain methods: `run_ends`, `starts_run`, `advance`, `lose_reply`, `hold_back` and
`land`, `land_twice`, `refuse_next`, `fail_finds`, `vanish`, `put`. `calls` lists what was asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TypeVar

from airflow_dispatch import limits
from airflow_dispatch.core.causes import Cause, CauseKind
from airflow_dispatch.core.commits import Sight
from airflow_dispatch.core.identity import JobKey, Mark, ObjectId, TaskKey
from airflow_dispatch.core.job import Job
from airflow_dispatch.core.record import (
    Created,
    Decided,
    Done,
    Incarnation,
    Permit,
    Phase,
    Refused,
    Source,
    Unclear,
    Verdict,
)
from airflow_dispatch.core.view import CallKind, Capabilities, Snapshot
from airflow_dispatch.errors import ClusterMismatch, ClusterUnavailable, ensure
from airflow_dispatch.ports.cluster import (
    OpenOrder,
    Output,
    Places,
    StartOrder,
    StopJobOrder,
    StopOrder,
    WithdrawOrder,
)

Order = StartOrder | OpenOrder | StopOrder | StopJobOrder | WithdrawOrder
Answer = TypeVar("Answer")
BEGINNING = datetime(2030, 1, 1, tzinfo=timezone.utc)
CALL_BOUND = timedelta(seconds=5)


@dataclass(slots=True)
class Held:
    """One object as this cluster holds it. Tests may look; the methods of the cluster change it."""

    id: ObjectId
    mark: Mark
    job: Job
    phase: Phase = Phase.GATED
    permit: Permit | None = None
    started_at: datetime | None = None
    kill_at: datetime | None = None
    stop_reason: str = ""
    verdict: Verdict | None = None
    note: str = ""
    unreadable: bool = False
    output: bytes = b""
    result: str | None = None

    def sight(self) -> Sight:
        """What a Find shows of it."""
        ended = self.phase is Phase.ENDED
        start = Incarnation(
            start_count=0,
            started=self.started_at is not None,
            started_at=self.started_at,
            host="" if self.started_at is None else "memory",
            verdict=self.verdict,
            idle=ended,
        )
        return Sight(self.id, self.mark, self.phase, (start,), self.note, self.unreadable)


@dataclass(slots=True)
class Faults:
    """What goes wrong with the next calls, counted by kind."""

    lost: Counter[CallKind] = field(default_factory=Counter)
    held_back: Counter[CallKind] = field(default_factory=Counter)
    doubled: Counter[CallKind] = field(default_factory=Counter)
    refused: dict[CallKind, list[Refused]] = field(default_factory=dict)
    finds: int = 0

    @staticmethod
    def take(counter: Counter[CallKind], kind: CallKind) -> bool:
        """Whether the next call of the kind is hit; uses it up."""
        hit = counter[kind] > 0
        counter[kind] -= hit
        return hit


class MemoryCluster:
    """See the module. `queueing` makes opened objects wait for `starts_run`."""

    def __init__(
        self,
        name: str = "memory",
        *,
        fingerprint: str = "memory:1",
        now: datetime = BEGINNING,
        queueing: bool = False,
    ) -> None:
        self._name = name
        self.fingerprint = fingerprint
        self.now = now
        self.queueing = queueing
        self.objects: dict[ObjectId, Held] = {}
        self.calls: list[tuple[CallKind, Order]] = []
        self.faults = Faults()
        self._register: dict[tuple[ObjectId, int, int], bool] = {}
        self._late: list[Callable[[], object]] = []
        self._news: Counter[str] = Counter()
        self._shown: dict[str, int] = {}
        self._sleepers: list[asyncio.Future[None]] = []

    # --- the port ---------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The connection id."""
        return self._name

    def refusals(self, job: Job) -> tuple[str, ...]:
        """Containers are what this cluster cannot do, so that tests can be refused something."""
        if not job.image:
            return ()
        return (f"image={job.image!r}: the memory cluster runs no containers; leave image empty",)

    async def probe(self, *, create: bool = False) -> Capabilities:  # noqa: ARG002 - nothing to make
        """All that the contract knows."""
        self._reachable()
        return Capabilities(
            self.fingerprint, CALL_BOUND, final_when_answered=frozenset(CallKind), durable=False
        )

    async def find(self, tasks: tuple[TaskKey, ...]) -> Snapshot:
        """Every object of the tasks, as of now."""
        self._reachable()
        asked = {task.digest for task in tasks}
        for digest in asked:
            self._shown[digest] = self._news[digest]
        shown = (held.sight() for held in self.objects.values() if held.mark.task_digest in asked)
        return Snapshot(self.fingerprint, self.now, tuple(sorted(shown, key=lambda s: s.id)))

    async def start(self, order: StartOrder) -> Created | Refused | Unclear:
        """Create the object, named by its tag."""
        self._heard(CallKind.START, order)
        said = self.refusals(order.job)
        if said:
            return Refused(said[0], permanent=True)
        return self._answer(
            CallKind.START, lambda: self._start(order), again=lambda: self._twin(order)
        )

    async def open(self, order: OpenOrder) -> Done | Refused | Unclear:
        """Keep the permit; the object starts, or queues."""
        self._heard(CallKind.OPEN, order)
        return self._answer(CallKind.OPEN, lambda: self._open(order))

    async def stop(self, order: StopOrder) -> Done | Refused | Unclear:
        """End a gated object at once, a running one after its grace."""
        self._heard(CallKind.STOP, order)
        return self._answer(CallKind.STOP, lambda: self._stop(order))

    async def stop_job(self, order: StopJobOrder) -> Done | Refused | Unclear:
        """Stop everything of the record."""
        self._heard(CallKind.STOP_JOB, order)
        return self._answer(CallKind.STOP_JOB, lambda: self._stop_job(order))

    async def withdraw(self, order: WithdrawOrder) -> Decided | Refused | Unclear:
        """Decide what is undecided: it never starts."""
        self._heard(CallKind.WITHDRAW, order)
        return self._answer(CallKind.WITHDRAW, lambda: self._withdraw(order))

    async def watch(self, task: TaskKey, *, seconds: float) -> None:
        """Wait until the task changes after the last Find, or `advance` has passed `seconds`."""
        until = self.now + timedelta(seconds=seconds)
        seen = self._shown.get(task.digest, self._news[task.digest])
        while self._news[task.digest] == seen and self.now < until:
            sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._sleepers.append(sleeper)
            await sleeper

    async def read_output(
        self,
        key: JobKey,  # noqa: ARG002 - the port's signature
        object: ObjectId,
        mark: Mark,
        *,
        offset: int,
        limit: int,
    ) -> Output:
        """What `writes` put there; a character is never split."""
        held = self._known(object, mark)
        if held is None:
            return Output("", offset, complete=True)
        piece = held.output[offset : offset + limit]
        while piece and offset + len(piece) < len(held.output):
            if held.output[offset + len(piece)] & 0xC0 != 0x80:
                break
            piece = piece[:-1]
        end = offset + len(piece)
        complete = held.phase is Phase.ENDED and end >= len(held.output)
        return Output(piece.decode("utf-8", "replace"), end, complete)

    async def read_result(
        self,
        key: JobKey,  # noqa: ARG002 - the port's signature
        object: ObjectId,
        mark: Mark,
    ) -> str | None:
        """What the test gave as the result."""
        held = self._known(object, mark)
        if held is None or held.result is None:
            return None
        return held.result[: limits.RESULT_BYTES_MAX + 1]

    def places(self, key: JobKey, object: ObjectId, mark: Mark) -> Places:
        """Names that lead nowhere."""
        folder = f"memory:{key.task.digest}/{key.generation}.{mark.submission}"
        return Places(folder, f"{folder}/output.{object}", f"{folder}/result.{object}")

    async def close(self) -> None:
        """Nothing is held open."""

    # --- the hands: what the world does -----------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Let time pass here: graces and time limits end runs, watches run out."""
        self.now += timedelta(seconds=seconds)
        for held in list(self.objects.values()):
            self._expire(held)
        self._wake()

    def starts_run(self, object: ObjectId) -> None:
        """A queued object gets its place and starts."""
        self._claim(self.objects[object])

    def writes(self, object: ObjectId, text: str) -> None:
        """The run prints."""
        self.objects[object].output += text.encode()

    def run_ends(
        self,
        object: ObjectId,
        code: int = 0,
        *,
        signal: int | None = None,
        cause: Cause | None = None,
        result: str | None = None,
    ) -> None:
        """The run's processes end: by exit code, by a signal, or for another cause."""
        held = self.objects[object]
        if held.kill_at is not None:
            cause = Cause(CauseKind.CANCELLED_OUTSIDE, detail=held.stop_reason)
        elif cause is None and signal is not None:
            cause = Cause(CauseKind.SIGNAL, signal)
        elif cause is None and code != 0:
            cause = Cause(CauseKind.EXIT, code)
        held.result = held.result if result is None else result
        self._end(held, cause)

    def node_lost(self, object: ObjectId, *, idle: bool = True) -> None:
        """Whoever held the run is gone, without a record of how it ended."""
        held = self.objects[object]
        cause = Cause(CauseKind.NODE_LOST, detail="the node of the memory cluster was lost")
        held.verdict = Verdict(Source.SCHEDULER, cause)
        held.phase = Phase.ENDED if idle else held.phase
        self._changed(held.mark)

    def vanish(self, object: ObjectId) -> None:
        """The cluster forgets the object."""
        held = self.objects.pop(object)
        self._changed(held.mark)

    def put(self, id: ObjectId, mark: Mark, job: Job, *, phase: Phase = Phase.GATED) -> Held:
        """An object that no call made."""
        held = self.objects[id] = Held(id, mark, job)
        if phase in (Phase.RUNNING, Phase.STOPPING):
            held.started_at = self.now
        held.phase = phase
        self._changed(mark)
        return held

    # --- the hands: what goes wrong ---------------------------------------------------------------

    def lose_reply(self, kind: CallKind | str) -> None:
        """The next call of the kind lands, and nobody hears so."""
        self.faults.lost[CallKind(kind)] += 1

    def hold_back(self, kind: CallKind | str) -> None:
        """The next call of the kind gets no answer and lands with `land`, unless late."""
        self.faults.held_back[CallKind(kind)] += 1

    def land(self) -> None:
        """Everything held back lands now, in order; what is past its deadline is refused."""
        late, self._late = self._late, []
        for call in late:
            call()

    def land_twice(self, kind: CallKind | str) -> None:
        """The next call of the kind lands twice; a start makes a twin with the same mark."""
        self.faults.doubled[CallKind(kind)] += 1

    def refuse_next(self, kind: CallKind | str, reason: str, *, permanent: bool) -> None:
        """The next call of the kind is clearly refused."""
        self.faults.refused.setdefault(CallKind(kind), []).append(Refused(reason, permanent))

    def fail_finds(self, count: int = 1) -> None:
        """The next Finds and probes get no answer."""
        self.faults.finds += count

    # --- how calls land ---------------------------------------------------------------------------

    def _heard(self, kind: CallKind, order: Order) -> None:
        if order.fingerprint != self.fingerprint:
            raise ClusterMismatch(
                f"{self.name} is {self.fingerprint}, not {order.fingerprint}; nothing was done"
            )
        self.calls.append((kind, order))

    def _answer(
        self,
        kind: CallKind,
        land: Callable[[], Answer],
        *,
        again: Callable[[], object] | None = None,
    ) -> Answer | Refused | Unclear:
        refused = self.faults.refused.get(kind)
        if refused:
            return refused.pop(0)
        if Faults.take(self.faults.held_back, kind):
            self._late.append(land)
            return Unclear("no answer")
        reply = land()
        if Faults.take(self.faults.doubled, kind):
            (again or land)()
        return Unclear("no answer") if Faults.take(self.faults.lost, kind) else reply

    def _start(self, order: StartOrder) -> Created | Refused:
        ensure(order.mark.belongs_to(order.key), "a start names the record that it is of")
        if self.now > order.deadline:
            return Refused("the deadline of the call had passed", permanent=False)
        held = self.objects.setdefault(order.mark.tag, Held(order.mark.tag, order.mark, order.job))
        if held.mark != order.mark:
            return Refused(f"the tag {held.id} is another object's", permanent=True)
        self._changed(order.mark)
        return Created(held.id, gated=held.phase is Phase.GATED)

    def _twin(self, order: StartOrder) -> None:
        twin = f"{order.mark.tag}-twin"
        if self.now <= order.deadline:
            self.objects.setdefault(twin, Held(twin, order.mark, order.job))
            self._changed(order.mark)

    def _open(self, order: OpenOrder) -> Done | Refused:
        held = self._known(order.object, order.mark)
        if held is None:
            return Refused(f"no object {order.object} here", permanent=True)
        if self.now > order.deadline:
            return Refused("the deadline of the call had passed", permanent=False)
        decided = self._register.get((held.id, order.permit.number, 0))
        if decided is True:
            return Done()
        if decided is False or held.phase is Phase.ENDED or order.permit.first > 0:
            return Refused(f"{held.id} cannot start under this permit any more", permanent=True)
        held.permit = order.permit
        held.phase = Phase.QUEUED
        self._changed(held.mark)
        if not self.queueing:
            self._claim(held)
        return Done()

    def _claim(self, held: Held) -> None:
        permit = held.permit
        if held.phase is not Phase.QUEUED or permit is None:
            return
        if self._register.setdefault((held.id, permit.number, 0), True):
            held.phase, held.started_at = Phase.RUNNING, self.now
        self._changed(held.mark)

    def _withdraw(self, order: WithdrawOrder) -> Decided:
        permit = order.permit
        starts = tuple(
            (count, self._register.setdefault((order.object, permit.number, count), False))
            for count in range(permit.first, permit.last + 1)
        )
        held = self._known(order.object, order.mark)
        if held is not None and held.phase is Phase.QUEUED and held.permit == permit:
            held.phase, held.permit = Phase.GATED, None
            self._changed(held.mark)
        return Decided(starts)

    def _stop(self, order: StopOrder) -> Done | Refused:
        held = self._known(order.object, order.mark)
        if held is None:
            return Refused(f"no object {order.object} here", permanent=True)
        self._begin_end(held, order.grace_seconds, order.reason)
        return Done()

    def _stop_job(self, order: StopJobOrder) -> Done:
        for held in list(self.objects.values()):
            if held.mark.belongs_to(order.key):
                self._begin_end(held, order.grace_seconds, order.reason)
        return Done()

    def _begin_end(self, held: Held, grace_seconds: int, reason: str) -> None:
        if held.phase in (Phase.GATED, Phase.QUEUED):
            self._end(held, Cause(CauseKind.CANCELLED_OUTSIDE, detail=reason))
        elif held.phase is Phase.RUNNING:
            held.phase, held.stop_reason = Phase.STOPPING, reason
            held.kill_at = self.now + timedelta(seconds=grace_seconds)
            self._changed(held.mark)

    def _expire(self, held: Held) -> None:
        if held.phase is Phase.STOPPING and held.kill_at is not None and held.kill_at <= self.now:
            self.run_ends(held.id)
        elif held.phase is Phase.RUNNING and held.started_at is not None:
            limit = timedelta(seconds=held.job.time_limit_seconds)
            if held.started_at + limit <= self.now:
                self._end(held, Cause(CauseKind.TIME_LIMIT))

    def _end(self, held: Held, cause: Cause | None) -> None:
        ensure(held.phase is not Phase.ENDED, f"{held.id} has ended already")
        held.phase = Phase.ENDED
        held.verdict = held.verdict or Verdict(Source.EXIT_RECORD, cause, self.now)
        self._changed(held.mark)

    # --- small words ------------------------------------------------------------------------------

    def _reachable(self) -> None:
        if self.faults.finds > 0:
            self.faults.finds -= 1
            raise ClusterUnavailable(f"{self.name} does not answer; what runs there goes on")

    def _known(self, wanted: ObjectId, mark: Mark) -> Held | None:
        held = self.objects.get(wanted)
        return held if held is not None and held.mark == mark else None

    def _changed(self, mark: Mark) -> None:
        self._news[mark.task_digest] += 1
        self._wake()

    def _wake(self) -> None:
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            if not sleeper.done():
                sleeper.set_result(None)
