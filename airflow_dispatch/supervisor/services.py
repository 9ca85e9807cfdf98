"""What a supervisor is given: the ports, its name in leases and commits, and how patient it is.

All of it is passed in, from the surface in production and from a test or a simulator elsewhere;
nothing in the supervisor reaches for a clock, a connection or an option by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from airflow_dispatch.core.steps import Policy
from airflow_dispatch.core.view import Capabilities
from airflow_dispatch.ports.clock import Clock
from airflow_dispatch.ports.cluster import Cluster
from airflow_dispatch.ports.journal import Journal
from airflow_dispatch.ports.store import Store
from airflow_dispatch.ports.tasks import Tasks
from airflow_dispatch.ports.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Settings:
    """Pace and patience, in seconds. Defaults are those of `docs/reference/configuration.md`."""

    lease_seconds: float = 60.0
    """Ownership of a record lasts this long without a sign of life; it is renewed at a third."""
    poll_seconds: float = 5.0
    """A job is looked at again after this long at the latest."""
    repeat_seconds: float = 10.0
    """A stop or withdraw without visible effect is repeated after this long."""
    settle_seconds: float = 30.0
    """How long a supervisor goes on settling after the outcome before it reports it."""
    retry_seconds: float = 2.0
    """Pause after a store or cluster did not answer; doubles up to `retry_seconds_max`."""
    retry_seconds_max: float = 60.0
    policy: Policy = field(default_factory=Policy)


class Clusters(Protocol):
    """The clusters by connection id."""

    async def get(self, name: str) -> Cluster:
        """The cluster; raises `InvalidConfiguration` where there is no such connection."""
        ...

    async def capabilities(self, name: str) -> Capabilities:
        """What it was found able to do, probed when first asked and kept.

        Raises `ClusterUnavailable`.
        """
        ...


class Stop:
    """Asks a supervision to end after the step in flight; what runs goes on."""

    __slots__ = ("requested",)

    def __init__(self) -> None:
        self.requested = False


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a supervisor works with."""

    store: Store
    clusters: Clusters
    clock: Clock
    tokens: Tokens
    tasks: Tasks
    journal: Journal
    owner: str
    """Who we are in leases and commits, such as `triggerer@host:pid`.

    For people and for liveness only.
    """
    settings: Settings = field(default_factory=Settings)
