"""Acts: what a person or Airflow decides about a job, with actor and reason, under no lease.

An act is decided again on a conflict, so that it never overrides what it has not seen.
"""

from __future__ import annotations

from airflow_dispatch import limits
from airflow_dispatch.core.commits import Adopted, Cancelled
from airflow_dispatch.core.identity import JobKey
from airflow_dispatch.core.record import Binding, Record
from airflow_dispatch.errors import StoreUnavailable
from airflow_dispatch.supervisor import filing
from airflow_dispatch.supervisor.services import Services


async def cancel(services: Services, key: JobKey, *, actor: str, reason: str) -> Record:
    """Commit the cancel; a job that has an outcome already keeps it, and nothing is committed.

    [cancel-final]
    """
    reason = reason[: limits.REASON_CHARS_MAX]
    for _ in range(limits.ACT_TRIES_MAX):
        record = await filing.load(services, key)
        if record.state.outcome is not None:
            return record
        stored = await filing.act(services, record, Cancelled(reason), actor=actor)
        if stored is not None:
            return stored
    raise StoreUnavailable(
        f"{key}: the cancel met {limits.ACT_TRIES_MAX} conflicts and is not committed; try again"
    )


async def adopt(services: Services, key: JobKey, binding: Binding) -> Record | None:
    """Commit that another try wants this run; None if the record changed meanwhile: look again."""
    record = await filing.load(services, key)
    if record.state.binding == binding:
        return record
    return await filing.act(services, record, Adopted(binding), actor="airflow")
