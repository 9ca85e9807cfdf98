"""One pass: load, heed Airflow, find, file what the Find shows, decide, commit, call.

File the reply.

Reading comes before looking, so that a judgement from absence never covers what the record learned
after the look began. A pass ends with its first scheduler call; decisions without a call may follow
each other on the same view as long as the record moves by our own commits alone. On a conflict the
pass ends, and the next one reads and looks again: nothing is decided on a newer record with an
older view. [evidence-only] [no-lock-needed]
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from typing_extensions import assert_never

from airflow_dispatch import limits
from airflow_dispatch.core import decision, sighting
from airflow_dispatch.core.classify import Wish, classify
from airflow_dispatch.core.commits import Replied
from airflow_dispatch.core.identity import JobKey
from airflow_dispatch.core.record import Call, Intent, Record, Stop, StopJob, Withdraw
from airflow_dispatch.core.settlement import Predecessor
from airflow_dispatch.core.steps import Carry, Context, Decide, Rest, Send, Step, Wait
from airflow_dispatch.core.view import Capabilities, Snapshot, View
from airflow_dispatch.errors import (
    ClusterMismatch,
    ClusterUnavailable,
    InvalidConfiguration,
    InvariantBroken,
    ensure,
)
from airflow_dispatch.ports.cluster import Cluster
from airflow_dispatch.ports.store import Lease
from airflow_dispatch.supervisor import acts, calls, filing, story
from airflow_dispatch.supervisor.services import Services

REPEATS_DOUBLED_MAX = 5
"""How often the pause before a repetition doubles."""


@dataclass(frozen=True, slots=True)
class Made:
    """A repeatable call of this process: under which number, when last, and how often in a row."""

    number: int
    at: float
    times: int


@dataclass(slots=True)
class Pace:
    """When this process last made which repeatable call.

    Each repetition waits twice as long as the one before it. Pace only: losing it costs a repeated
    stop.
    """

    made: dict[tuple[JobKey, Intent], Made] = field(default_factory=dict)

    def note(self, key: JobKey, call: Call, now: float) -> None:
        """The call was made now."""
        if isinstance(call.intent, (Stop, StopJob, Withdraw)):
            before = self.made.get((key, call.intent))
            times = 1 if before is None else before.times + 1
            self.made[(key, call.intent)] = Made(call.number, now, times)

    def paced(self, key: JobKey, now: float, seconds: float) -> frozenset[int]:
        """The calls of the record that are too recent to repeat."""
        forgotten = seconds * 2 ** (REPEATS_DOUBLED_MAX + 1)
        self.made = {k: made for k, made in self.made.items() if now - made.at < forgotten}
        return frozenset(
            made.number
            for (owner, _), made in self.made.items()
            if owner == key
            and now - made.at < seconds * 2 ** min(made.times - 1, REPEATS_DOUBLED_MAX)
        )


@dataclass(frozen=True, slots=True)
class Passed:
    """What a pass came to. `moved`: the record or the cluster was changed, so look again at once.

    `step` is None where nothing more could be decided on this view.
    """

    record: Record
    view: View
    step: Step | None
    moved: bool
    earlier: tuple[Record, ...] = ()
    """The earlier tries that were loaded with it, nearest first."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a decision needs besides record and view."""

    cluster: Cluster
    capabilities: Capabilities
    predecessors: tuple[Predecessor, ...]
    asked: bool


Heard = Callable[[Record], Awaitable[None]]
"""What is done with the record once the evidence of a pass is filed, before anything is decided."""


async def one(
    services: Services,
    key: JobKey,
    *,
    lease: Lease | None,
    pace: Pace,
    heard: Heard | None = None,
) -> Passed:
    """One pass over one job.

    Raises `StoreUnavailable`, `ClusterUnavailable`, `ClusterMismatch` or `LeaseLost`.
    """
    record, asked = await _heeded(services, await filing.load(services, key))
    story.cancelled(services.journal, record)
    earlier = await predecessors_of(services, record)
    looks = _Looks(services)
    view = await looks.view(record)
    around = Surroundings(
        cluster=await services.clusters.get(record.state.cluster),
        capabilities=await services.clusters.capabilities(record.state.cluster),
        predecessors=await _seen(services, earlier, looks),
        asked=asked,
    )
    before = record.revision
    record, clean = await _evidence(services, record, view)
    if not clean:
        return Passed(record, view, None, moved=True, earlier=tuple(earlier))
    if heard is not None:
        await heard(record)
    passed = await _decisions(services, record, view, around, lease=lease, pace=pace, before=before)
    return replace(passed, earlier=tuple(earlier))


async def _heeded(services: Services, record: Record) -> tuple[Record, bool]:
    """Ask Airflow's rows whether the run is still wanted; commit the cancel if it is not.

    [follows-the-task]
    """
    task = record.state.key.task
    rows = await services.tasks.read((task,))
    answer = classify(record.state, rows[task])
    match answer.wish:
        case Wish.CANCEL if record.state.outcome is None:
            return await acts.cancel(
                services, record.state.key, actor="airflow", reason=answer.why
            ), False
        case Wish.ASK:
            return record, True
        case _:
            return record, False


async def predecessors_of(services: Services, record: Record) -> list[Record]:
    """The earlier tries that still matter, nearest first, down to one that is settled."""
    chain: list[Record] = []
    current = record
    while current.state.predecessor is not None and (
        not chain or not current.state.settled_revision
    ):
        ensure(len(chain) < limits.PREDECESSORS_MAX, "a job has no more earlier tries than that")
        current = await filing.load(
            services, JobKey(current.state.key.task, current.state.predecessor)
        )
        chain.append(current)
    return chain


@dataclass(slots=True)
class _Looks:
    """One Find of each cluster involved, begun after all the records were loaded."""

    services: Services
    snapshots: dict[tuple[str, str], Snapshot] = field(default_factory=dict)

    async def view(self, record: Record) -> View:
        """What the record's own cluster shows; raises where something else answers."""
        name, task = record.state.cluster, record.state.key.task
        found = self.snapshots.get((name, task.digest))
        if found is None:
            found = await (await self.services.clusters.get(name)).find((task,))
            self.snapshots[(name, task.digest)] = found
        if found.fingerprint != record.state.fingerprint:
            raise ClusterMismatch(
                f"{record.state.key} belongs to the cluster {record.state.fingerprint}, but "
                f"connection {name!r} leads to {found.fingerprint}; what runs goes on unseen. "
                "Point the connection back, or run the supervisor where the run was started"
            )
        return View(found, record.revision)


async def _seen(
    services: Services, earlier: list[Record], looks: _Looks
) -> tuple[Predecessor, ...]:
    """The earlier tries, as far as their clusters answer.

    Of one that does not answer nothing is known, which keeps this job's gate shut and no more: a
    run that was opened already is followed all the same.
    """
    seen: list[Predecessor] = []
    for record in earlier:
        try:
            view = await looks.view(record)
            capabilities = await services.clusters.capabilities(record.state.cluster)
        except (ClusterUnavailable, ClusterMismatch, InvalidConfiguration):
            break  # Driving it says so in the story; see `loop`.
        seen.append(Predecessor(record, view, capabilities))
    return tuple(seen)


async def _evidence(services: Services, record: Record, view: View) -> tuple[Record, bool]:
    """File what is new.

    False if others committed in between, so that the view is too old to decide on.
    """
    shown = sighting.news(record, view)
    if shown is None:
        return record, True
    story.shown(services.journal, shown)
    filed = await filing.file(services, record, shown)
    return filed, filed.revision == record.revision + 1


async def _decisions(
    services: Services,
    record: Record,
    view: View,
    around: Surroundings,
    *,
    lease: Lease | None,
    pace: Pace,
    before: int,
) -> Passed:
    key = record.state.key
    for _ in range(limits.STEPS_PER_PASS_MAX):
        now = services.clock.monotonic()
        context = Context(
            capabilities=around.capabilities,
            tag=services.tokens.fresh(),
            predecessors=around.predecessors,
            policy=services.settings.policy,
            paced=pace.paced(key, now, services.settings.repeat_seconds),
            asked=around.asked,
        )
        step = decision.next(record, view, context)
        match step:
            case Wait() | Rest():
                return Passed(record, view, step, moved=record.revision > before)
            case Carry(call=call):
                story.step(services.journal, step)
                await _call(services, record, around, call, pace=pace)
                return Passed(record, view, step, moved=True)
            case Decide(body=body) | Send(body=body):
                decided = await filing.decide(services, record, body, lease=lease)
                if decided is None:
                    return Passed(record, view, step, moved=True)
                record = decided
                story.step(services.journal, step)
                if isinstance(step, Send):
                    call = _committed(record, step)
                    record = await _call(services, record, around, call, pace=pace)
                    return Passed(record, view, step, moved=True)
            case _:
                assert_never(step)
    return Passed(record, view, None, moved=True)  # A long pass; the next one goes on with it.


def _committed(record: Record, step: Send) -> Call:
    call = record.state.call(step.body.number)
    if call is None:
        raise InvariantBroken(f"call {step.body.number} was committed and is not on record")
    return call


async def _call(
    services: Services, record: Record, around: Surroundings, call: Call, *, pace: Pace
) -> Record:
    """Make the call and file its reply at once.

    Of stops only the receipt's need a reply on record.
    """
    reply = await calls.make(services, around.cluster, record, call)
    pace.note(record.state.key, call, services.clock.monotonic())
    story.replied(services.journal, call, reply)
    if isinstance(call.intent, Stop):
        return record
    return await filing.file(services, record, Replied(call.number, reply))
