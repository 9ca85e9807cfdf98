"""The local cluster: a scheduler in small on this host, without a daemon.

Each object is a small detached process (the shim) that waits at its gate, runs the command, and
records how it ended; the queue is a folder. Whoever looks reads files, locks and /proc. The whole
of it needs Linux, one host, and a folder on a disk of that host.

`adapter` is what the entry point `local` of the group `airflow_dispatch.clusters` gives. Importing
this package imports no other part of it: shims import it too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_dispatch.ports.cluster import Cluster


class LocalKind:
    """How a connection becomes a local cluster: a `ports.cluster.ClusterKind`."""

    @property
    def connection_type(self) -> str:
        """The Airflow connection type."""
        return "dispatch_local"

    def connect(self, name: str, settings: Mapping[str, object]) -> Cluster:
        """Make the cluster; raises `InvalidConfiguration` naming what is wrong."""
        if sys.platform != "linux":
            from airflow_dispatch.errors import InvalidConfiguration  # noqa: PLC0415 - light

            raise InvalidConfiguration(
                f"connection {name!r}: the local cluster needs Linux, and this is {sys.platform}"
            )
        from airflow_dispatch.clusters.local.cluster import LocalCluster  # noqa: PLC0415 - light
        from airflow_dispatch.clusters.local.settings import parse  # noqa: PLC0415 - light

        return LocalCluster(name, parse(name, settings))


adapter = LocalKind()
