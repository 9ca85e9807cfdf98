"""`sweep`: look after the jobs that no supervisor owns. The daemon is this in a loop.

With neither a live trigger nor this, a cancelled run burns on until the cluster's own limit:
`check` and the status warn. [follows-the-task] [nothing-forgotten]
"""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_dispatch import limits
from airflow_dispatch.core.identity import JobKey
from airflow_dispatch.errors import DispatchError
from airflow_dispatch.ports.journal import Level
from airflow_dispatch.supervisor import loop
from airflow_dispatch.supervisor.passes import Pace
from airflow_dispatch.supervisor.services import Services


@dataclass(slots=True)
class Swept:
    """What one sweep came to: jobs looked at, moved on, and those that could not be.

    With the reason.
    """

    seen: int = 0
    moved: int = 0
    failed: list[tuple[JobKey, DispatchError]] = field(default_factory=list)


async def sweep(services: Services, *, pace: Pace) -> Swept:
    """Drive every claimable job once. One that fails does not keep the others from their turn."""
    swept = Swept()
    for key in await services.store.claimable(limit=limits.PAGE_ROWS_MAX):
        swept.seen += 1
        try:
            swept.moved += await loop.drive(services, key, pace=pace)
        except DispatchError as error:
            swept.failed.append((key, error))
            services.journal.tell(Level.WARNING, f"{key}: {error}")
    return swept
