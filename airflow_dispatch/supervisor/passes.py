"""One pass: load, heed Airflow, find, file what the Find shows, decide, commit, call.

File the reply.

Reading comes before looking, so that a judgement from absence never covers what the record learned
after the look began. A pass ends with its first scheduler call; decisions without a call may follow
each other on the same view as long as the record moves by our own commits alone. On a conflict the
pass ends, and the next one reads and looks again: nothing is decided on a newer record with an
older view. [evidence-only] [no-lock-needed]
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from typing_extensions import assert_never

from airflow_dispatch import limits
from airflow_dispatch.core import decision, sighting
from airflow_dispatch.core.classify import Wish, classify
from airflow_dispatch.core.commits import Replied
from airflow_dispatch.core.identity import JobKey
from airflow_dispatch.core.record import Call, Record, Stop, StopJob, Withdraw
from airflow_dispatch.core.settlement import Predecessor
from airflow_dispatch.core.steps import Carry, Context, Decide, Rest, Send, Step, Wait
from airflow_dispatch.core.view import Capabilities, Snapshot, View
from airflow_dispatch.errors import ClusterMismatch, InvariantBroken, ensure
from airflow_dispatch.ports.cluster import Cluster
from airflow_dispatch.ports.store import Lease
from airflow_dispatch.supervisor import acts, calls, filing, story
from airflow_dispatch.supervisor.services import Services


@dataclass(slots=True)
class Pace:
    """When this process last made which repeatable call.

    Pace only: losing it costs a repeated stop.
    """

    made: dict[tuple[JobKey, int], float] = field(default_factory=dict)

    def note(self, key: JobKey, call: Call, now: float) -> None:
        """The call was made now."""
        if isinstance(call.intent, (Stop, StopJob, Withdraw)):
            self.made[(key, call.number)] = now

    def paced(self, key: JobKey, now: float, seconds: float) -> frozenset[int]:
        """The calls of the record that are too recent to repeat."""
        self.made = {k: at for k, at in self.made.items() if now - at < seconds}
        return frozenset(number for (owner, number) in self.made if owner == key)


@dataclass(frozen=True, slots=True)
class Passed:
    """What a pass came to. `moved`: the record or the cluster was changed, so look again at once.

    `step` is None where others moved it, so that nothing could be decided on this view.
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


async def one(services: Services, key: JobKey, *, lease: Lease | None, pace: Pace) -> Passed:
    """One pass over one job.

    Raises `StoreUnavailable`, `ClusterUnavailable`, `ClusterMismatch` or `LeaseLost`.
    """
    record, asked = await _heeded(services, await filing.load(services, key))
    earlier = await predecessors_of(services, record)
    views = await _find(services, [record, *earlier])
    around = Surroundings(
        cluster=await services.clusters.get(record.state.cluster),
        capabilities=await services.clusters.capabilities(record.state.cluster),
        predecessors=tuple(
            [
                Predecessor(one, view, await services.clusters.capabilities(one.state.cluster))
                for one, view in zip(earlier, views[1:], strict=True)
            ]
        ),
        asked=asked,
    )
    view, before = views[0], record.revision
    record, clean = await _evidence(services, record, view)
    if not clean:
        return Passed(record, view, None, moved=True, earlier=tuple(earlier))
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


async def _find(services: Services, records: list[Record]) -> list[View]:
    """Look once at each cluster involved, after all the records were loaded.

    A view for each record.
    """
    snapshots: dict[str, Snapshot] = {}
    for record in records:
        name = record.state.cluster
        if name not in snapshots:
            snapshots[name] = await (await services.clusters.get(name)).find(
                (record.state.key.task,)
            )
    return [_view(record, snapshots[record.state.cluster]) for record in records]


def _view(record: Record, snapshot: Snapshot) -> View:
    if snapshot.fingerprint != record.state.fingerprint:
        raise ClusterMismatch(
            f"{record.state.key} belongs to the cluster {record.state.fingerprint}, but connection "
            f"{record.state.cluster!r} leads to {snapshot.fingerprint}; what runs goes on unseen. "
            "Point the connection back, or run the supervisor where the run was started"
        )
    return View(snapshot, record.revision)


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
    raise InvariantBroken(
        f"{key}: {limits.STEPS_PER_PASS_MAX} decisions in one pass came to no end"
    )


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
    pace.note(record.state.key, call, services.clock.monotonic())
    reply = await calls.make(services, around.cluster, record, call)
    story.replied(services.journal, call, reply)
    if isinstance(call.intent, Stop):
        return record
    return await filing.file(services, record, Replied(call.number, reply))
