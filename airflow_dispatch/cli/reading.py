"""Reads what the commands show: records by the names that people give, and where each job stands.

It asks the store, and clusters only for where things are, which contacts nothing: a command that
looks must work while a cluster is down. It changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from airflow_dispatch import limits
from airflow_dispatch.cli import keys, words
from airflow_dispatch.cli.keys import ByDigest, ByTask, Reference
from airflow_dispatch.cli.standing import Standing
from airflow_dispatch.core.identity import JobKey, ObjectId, TaskKey
from airflow_dispatch.core.record import Record
from airflow_dispatch.core.status import Attendance, status_of
from airflow_dispatch.errors import DispatchError, UnknownRecord, UnreadableRecord
from airflow_dispatch.ports.cluster import Places
from airflow_dispatch.ports.store import Entry, Filter, Owned
from airflow_dispatch.supervisor import passes
from airflow_dispatch.supervisor.services import Services


async def find(services: Services, reference: Reference) -> Record:
    """The record that is meant; raises `UnknownRecord` or `AmbiguousKey`."""
    deployment = await services.store.deployment()
    match reference:
        case ByDigest(prefix=prefix):
            wanted = Filter(deployment=deployment, digest_prefix=prefix)
            page = await services.store.list(wanted, limit=keys.CANDIDATES_MAX + 1)
            if page.unreadable and not page.records:
                raise UnreadableRecord(page.unreadable[0])
            return keys.only(reference, page.records)
        case ByTask(dag_id, task_id, run_id, map_index, generation):
            task = TaskKey(deployment, dag_id, run_id, task_id, map_index)
            if generation is None:
                found = await services.store.latest(task)
            else:
                found = await services.store.load(JobKey(task, generation))
            if found is None:
                raise keys.missing(reference, mapped=await _indexes(services, task))
            return found


async def _indexes(services: Services, task: TaskKey) -> list[int]:
    """Map indexes of which there are jobs, where the task was asked for as if it were not mapped.

    A few of the newest are enough to choose from.
    """
    if task.map_index >= 0:
        return []
    wanted = Filter(
        deployment=task.deployment, dag_id=task.dag_id, run_id=task.run_id, task_id=task.task_id
    )
    page = await services.store.list(wanted, limit=limits.PAGE_ROWS_MAX)
    found = {record.state.key.task.map_index for record in page.records}
    return sorted(index for index in found if index >= 0)


async def again(services: Services, key: JobKey) -> Record:
    """The record as of now; raises `UnknownRecord` if it was dropped meanwhile."""
    found = await services.store.load(key)
    if found is None:
        raise UnknownRecord(f"{words.job(key)} is not on record any more")
    return found


async def every(
    services: Services,
    wanted: Filter,
    *,
    limit: int | None = None,
    unreadable: list[str] | None = None,
) -> list[Record]:
    """The records that match in this deployment, newest first, `limit` of them at most.

    What cannot be read is told in `unreadable`; without it, it raises `UnreadableRecord`.
    """
    wanted = replace(wanted, deployment=await services.store.deployment())
    found: list[Record] = []
    cursor: str | None = None
    while limit is None or len(found) < limit:
        left = limits.PAGE_ROWS_MAX if limit is None else limit - len(found)
        page = await services.store.list(
            wanted, cursor=cursor, limit=min(left, limits.PAGE_ROWS_MAX)
        )
        found.extend(page.records)
        if unreadable is not None:
            unreadable.extend(page.unreadable)
        elif page.unreadable:
            raise UnreadableRecord(page.unreadable[0])
        cursor = page.cursor
        if cursor is None:
            break
    return found


async def standings(
    services: Services, records: Sequence[Record], *, unreadable: list[str] | None = None
) -> list[Standing]:
    """Where each of the jobs stands, by one reading of the store's clock and of all leases.

    A job is left out, and told in `unreadable`, if an earlier try of its task cannot be read.
    """
    now = (await services.store.health()).now
    leases = await services.store.last_leases(tuple(record.state.key for record in records))
    found: list[Standing] = []
    for record in records:
        try:
            found.append(await _standing(services, record, leases, now=now))
        except UnreadableRecord as error:  # noqa: PERF203 - one job must not hide the others
            if unreadable is None:
                raise
            unreadable.append(f"{words.job(record.state.key)} follows one: {error}")
    return found


async def standing(services: Services, record: Record) -> Standing:
    """Where one job stands, with the places of its objects."""
    (found,) = await standings(services, [record])
    return replace(found, places=await _places(services, record))


async def history(services: Services, key: JobKey) -> list[Entry]:
    """All commits of a record, in order."""
    found: list[Entry] = []
    while True:
        after = found[-1].revision if found else 0
        page = await services.store.history(key, after=after, limit=limits.PAGE_ROWS_MAX)
        if not page:
            return found
        found.extend(page)


def grace(services: Services) -> timedelta:
    """For how long a job may be without a lease before that counts: as long as a lease lasts."""
    return timedelta(seconds=services.settings.lease_seconds)


async def _standing(
    services: Services, record: Record, leases: Mapping[JobKey, Owned], *, now: datetime
) -> Standing:
    settled = bool(record.state.settled_revision)
    earlier = () if settled else tuple(await passes.predecessors_of(services, record))
    attendance = _attendance(record, leases.get(record.state.key), now=now)
    status = status_of(
        record, now=now, attendance=attendance, grace=grace(services), earlier=earlier
    )
    return Standing(record, status, attendance, now, earlier=earlier)


def _attendance(record: Record, lease: Owned | None, *, now: datetime) -> Attendance:
    """Who looked after the record last.

    A record that nobody has claimed yet counts from when it was made. That is told by the clock of
    whoever made it, which may be ahead: never later than now.
    """
    if lease is None:
        return Attendance(until=min(record.state.created_at, now), now=now)
    return Attendance(owner=lease.owner, until=lease.expires_at, now=now)


async def _places(services: Services, record: Record) -> dict[ObjectId, Places]:
    """Where the objects' folders are; none where the connection is not to be had any more."""
    try:
        cluster = await services.clusters.get(record.state.cluster)
    except DispatchError:
        return {}
    key = record.state.key
    return {one.id: cluster.places(key, one.id, one.mark) for one in record.state.objects}
