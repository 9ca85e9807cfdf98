"""`resolve`: which record a try of a task supervises.

Finds the open one, adopts it, or makes the next generation.

A trigger may be started for a try that is long over, or twice, or after the next try has begun; so
nothing is made before Airflow's rows say that this very try is the current one. [follows-the-task]
The worker knows nothing of this: if it dies, no record exists, and no run.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_dispatch import limits
from airflow_dispatch.core.classify import PRESENT, TaskRow, Wish, classify
from airflow_dispatch.core.commits import Begun
from airflow_dispatch.core.identity import JobKey, TaskKey
from airflow_dispatch.core.job import Job, Unmatched
from airflow_dispatch.core.record import Binding, OnClear, Record
from airflow_dispatch.errors import DispatchError, JobRefused, StoreUnavailable
from airflow_dispatch.ports.journal import Level
from airflow_dispatch.ports.store import Exists, Stored, Unknown
from airflow_dispatch.supervisor import acts, filing
from airflow_dispatch.supervisor.services import Services


class NotCurrent(DispatchError):
    """The try that asks is not the task's current one any more: nothing is launched for it."""


@dataclass(frozen=True, slots=True)
class Try:
    """One try of a task instance, as its trigger knows it."""

    task: TaskKey
    ti_id: str
    try_number: int
    on_clear: OnClear = OnClear.RESTART


async def resolve(services: Services, asking: Try, job: Job) -> Record:
    """The record that the try supervises from now on.

    Raises `NotCurrent` or `JobRefused` without making any.
    """
    for _ in range(limits.ACT_TRIES_MAX):
        record = await _resolved(services, asking, job)
        if record is not None:
            return record
    raise StoreUnavailable(
        f"{asking.task}: no record could be settled on in {limits.ACT_TRIES_MAX} tries"
    )


async def _resolved(services: Services, asking: Try, job: Job) -> Record | None:
    latest = await services.store.latest(asking.task)
    row = (await services.tasks.read((asking.task,)))[asking.task]
    binding = _binding(asking, row)
    if latest is None:
        return await _make(services, job, binding, key=JobKey(asking.task, 1), predecessor=None)
    answer = classify(latest.state, row)
    generation = latest.state.key.generation
    match answer.wish:
        case Wish.KEEP:
            services.journal.tell(
                Level.INFO, f"Found the record of generation {generation}: {answer.why}."
            )
            return latest
        case Wish.ASK:
            services.journal.tell(
                Level.WARNING, f"Generation {generation} needs a person's answer: {answer.why}."
            )
            return latest
        case Wish.ADOPT:
            services.journal.tell(
                Level.INFO, f"Adopting the run of generation {generation}: {answer.why}."
            )
            return await acts.adopt(services, latest.state.key, binding)
        case Wish.CANCEL:
            await acts.cancel(services, latest.state.key, actor="airflow", reason=answer.why)
            key = JobKey(asking.task, generation + 1)
            return await _make(services, job, binding, key=key, predecessor=generation)


def _binding(asking: Try, row: TaskRow) -> Binding:
    """The row as a binding; raises `NotCurrent` unless the row is of this very try."""
    if row.deployment != asking.task.deployment:
        raise NotCurrent(
            f"{asking.task}: the database read is not this deployment's; nothing was launched"
        )
    current = (row.ti_id, row.try_number) == (
        asking.ti_id,
        asking.try_number,
    ) and row.state in PRESENT
    if not current or row.dag_run_id is None:
        raise NotCurrent(
            f"{asking.task}: try {asking.try_number} is not the current one any more "
            f"(the task instance is {row.state or 'waiting'}, try {row.try_number}); "
            "nothing was launched for it"
        )
    return Binding(
        dag_run_id=row.dag_run_id,
        ti_id=asking.ti_id,
        try_number=asking.try_number,
        max_tries=row.max_tries,
        clear_number=row.clear_number,
        on_clear=asking.on_clear,
    )


async def _make(
    services: Services, job: Job, binding: Binding, *, key: JobKey, predecessor: int | None
) -> Record | None:
    cluster = await services.clusters.get(job.cluster)
    refusals = cluster.refusals(job)
    if refusals:
        raise JobRefused("; ".join(refusals) + ". Nothing was launched")
    capabilities = await cluster.probe(create=True)
    if job.unmatched is Unmatched.AUTO and not capabilities.start_bounded:
        raise JobRefused(
            f"unmatched='auto' needs a bound on start calls, which {job.cluster} has not; "
            "use 'manual'"
        )
    begun = Begun(key, job, binding, capabilities.fingerprint, predecessor)
    answer = await services.store.create(filing.commit_of(services, begun))
    match answer:
        case Stored(record=record):
            after = f", after generation {predecessor}" if predecessor else ""
            services.journal.tell(
                Level.INFO,
                f"Made the record of generation {key.generation}{after}: {key.digest[:12]}.",
            )
            return record
        case Exists() | Unknown():
            return None
