"""Putting commits on record: decisions at the revision they were decided from.

Evidence at whatever it is by now.

A reply of the store that was lost is resolved by reading: the commit's id is on record or it is
not. [no-lock-needed]
"""

from __future__ import annotations

from airflow_dispatch import limits
from airflow_dispatch.core import folding
from airflow_dispatch.core.commits import Body, Commit, Evidence
from airflow_dispatch.core.identity import JobKey
from airflow_dispatch.core.record import Record
from airflow_dispatch.errors import DispatchError, StoreUnavailable, UnknownRecord
from airflow_dispatch.ports.store import Conflict, Displaced, Lease, Stored, Unknown
from airflow_dispatch.supervisor.services import Services


class LeaseLost(DispatchError):
    """Another supervisor owns the record now; what we hold in hand is filed, then we stand by."""


def commit_of(services: Services, body: Body, *, actor: str | None = None) -> Commit:
    """A new commit with a fresh id."""
    return Commit(
        id=services.tokens.fresh(),
        at=services.clock.now(),
        actor=actor or f"supervisor:{services.owner}",
        body=body,
    )


async def load(services: Services, key: JobKey) -> Record:
    """The record as of now; raises `UnknownRecord`."""
    record = await services.store.load(key)
    if record is None:
        raise UnknownRecord(f"there is no record of {key}")
    return record


async def decide(
    services: Services, base: Record, body: Body, *, lease: Lease | None
) -> Record | None:
    """Commit a decision made at `base`.

    None if something else was committed meanwhile, and then nothing was written.
    """
    return await _try(services, base, commit_of(services, body), lease=lease)


async def act(services: Services, base: Record, body: Body, *, actor: str) -> Record | None:
    """Commit an act decided at `base`; None on a conflict."""
    return await _try(services, base, commit_of(services, body, actor=actor), lease=None)


async def file(services: Services, base: Record, body: Evidence) -> Record:
    """Merge evidence into the record, whatever its revision is by now.

    The result may be far from `base`.

    What the record holds already is not committed again. Raises `StoreUnavailable` where it could
    not be filed: the caller still has it in hand.
    """
    commit = commit_of(services, body)
    record = base
    for _ in range(limits.EVIDENCE_TRIES_MAX):
        if folding.apply(record, commit).state == record.state:
            return record
        stored = await _try(services, record, commit, lease=None)
        if stored is not None:
            return stored
        record = await load(services, base.state.key)
    raise StoreUnavailable(
        f"{base.state.key}: evidence met {limits.EVIDENCE_TRIES_MAX} conflicts and was not filed; "
        "the run goes on and the evidence is gathered again"
    )


async def _try(
    services: Services, base: Record, commit: Commit, *, lease: Lease | None
) -> Record | None:
    answer = await services.store.commit(base, commit, lease=lease)
    match answer:
        case Stored(record=record):
            return record
        case Conflict():
            return None
        case Displaced():
            raise LeaseLost(f"{base.state.key} is owned by another supervisor now")
        case Unknown():
            entries = await services.store.history(base.state.key, after=base.revision, limit=1)
            landed = bool(entries) and entries[0].commit.id == commit.id
            return folding.apply(base, commit) if landed else None
