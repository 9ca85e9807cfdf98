"""The hook of `dispatch_local` connections: what gives the type its place in Airflow's forms.

The operator does not need it. Its one task is the form's Test button, which connects as a trigger
would and says what it found. It launches nothing and makes nothing on the cluster.
"""

from __future__ import annotations

import asyncio

from airflow.sdk import BaseHook

from airflow_dispatch.errors import DispatchError

CONNECTION_TYPE = "dispatch_local"


class LocalHook(BaseHook):
    """A local cluster, as Airflow's connection form sees it."""

    conn_type = CONNECTION_TYPE
    conn_name_attr = "cluster"
    default_conn_name = "dispatch_local_default"
    hook_name = "Dispatch: local"

    def __init__(self, cluster: str = default_conn_name) -> None:
        super().__init__()
        self.cluster = cluster

    def test_connection(self) -> tuple[bool, str]:
        """Whether the cluster answers, and in words what answered or what is wrong."""
        from airflow_dispatch.surface import clusters, connections  # noqa: PLC0415 - light forms

        try:
            found = asyncio.run(
                clusters.probed(connections.values(self.get_connection(self.cluster)))
            )
        except DispatchError as error:
            return False, str(error)
        return True, f"Cluster {found.fingerprint} answers."
