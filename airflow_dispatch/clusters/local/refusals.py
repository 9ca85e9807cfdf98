"""What a job may not ask of the local cluster, one sentence for each field. Pure.

A field that cannot be honoured is refused by its name and value before anything is launched, with
what to write instead; it is never ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from airflow_dispatch.core.job import Job, Resources


def refusals(job: Job, *, slots: int) -> tuple[str, ...]:
    """The sentences; empty if the job can run here."""
    return tuple(f"{field}: the local cluster {why}" for field, why in _refusals(job, slots))


def _refusals(job: Job, slots: int) -> Iterator[tuple[str, str]]:
    yield from _resources(job.resources, slots)
    for field in ("account", "partition", "qos", "queue"):
        value = getattr(job.placement, field)
        if value:
            yield f"{field}={value!r}", f"has one queue and no accounts; leave {field} out"
    if job.image:
        yield f"image={job.image!r}", "runs no containers; leave image out"
    if job.mounts:
        yield f"mounts={list(job.mounts)!r}", "sees this host's folders as they are; leave it out"
    if job.start_within_seconds is not None:
        yield (
            f"start_within={job.start_within_seconds}",
            "sets no limit to the wait for cpus; leave start_within out",
        )
    if job.options:
        yield f"options={dict(job.options)!r}", "has no options; leave them out"
    if job.workdir and not PurePosixPath(job.workdir).is_absolute():
        yield f"workdir={job.workdir!r}", "needs an absolute folder; write the whole path"


def _resources(resources: Resources, slots: int) -> Iterator[tuple[str, str]]:
    if resources.nodes > 1:
        yield f"nodes={resources.nodes}", "is one host; leave nodes 1"
    if resources.tasks_per_node > 1:
        yield (
            f"tasks_per_node={resources.tasks_per_node}",
            "starts one task; leave tasks_per_node 1 and let the command start its workers",
        )
    if resources.gpus_per_node:
        yield (
            f"gpus={resources.gpus_per_node}",
            "hands out no GPUs; leave gpus 0 (a run sees every GPU of this host)",
        )
    if resources.cpus > slots:
        yield f"cpus={resources.cpus}", f"has {slots} slots; ask for at most {slots} cpus"
