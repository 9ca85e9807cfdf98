"""Reads Airflow connections, in each of the ways that a process of Airflow offers.

A trigger asks its supervisor and must not block the event loop; a command has the metadata
database; an inline trigger (`dag.test`) has its supervisor in its own process. All give the same
values, or `InvalidConfiguration` with the connection's name.

Airflow says "not defined" of a connection as well where its secrets backends did not answer, so one
such answer alone is not to be trusted; see the trigger.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

from airflow_dispatch.errors import ClusterUnavailable, InvalidConfiguration


@dataclass(frozen=True, slots=True)
class Values:
    """What a connection holds, as far as clusters use it: empty fields of the form left out."""

    name: str
    connection_type: str
    settings: Mapping[str, object]


class Connections(Protocol):
    """Where connections come from."""

    async def read(self, name: str) -> Values:
        """The connection as it is now; raises `InvalidConfiguration` where there is none."""
        ...


class TriggerConnections:
    """Through the triggerer's supervisor, without blocking the event loop."""

    async def read(self, name: str) -> Values:
        """See `Connections.read`."""
        try:
            return values(await Connection.async_get(name))
        except AirflowNotFoundException as error:
            raise _unknown(name) from error
        except PermissionError as error:
            raise _denied(name) from error
        except AirflowRuntimeError as error:
            raise ClusterUnavailable(
                f"Airflow did not give the connection {name!r}: {error}; what runs goes on"
            ) from error


class InlineConnections:
    """Through the supervisor in this very process, which an inline trigger runs in."""

    async def read(self, name: str) -> Values:
        """See `Connections.read`."""
        return await asyncio.to_thread(_read, name, Connection.get)


class DirectConnections:
    """Through the secrets backends and the metadata database: for commands."""

    async def read(self, name: str) -> Values:
        """See `Connections.read`."""
        # The SDK would leave the metadata database out in a process that is no server.
        from airflow.models.connection import Connection as Row  # noqa: PLC0415 - heavy

        return await asyncio.to_thread(_read, name, Row.get_connection_from_secrets)


def _read(name: str, get: Callable[[str], Any]) -> Values:
    try:
        return values(get(name))
    except AirflowNotFoundException as error:
        raise _unknown(name) from error
    except PermissionError as error:
        raise _denied(name) from error


def values(connection: Any) -> Values:
    """What the connection holds; raises `InvalidConfiguration` for extra that is no JSON object.

    Airflow itself would take such an extra for an empty one.
    """
    extra = {}
    if connection.extra:
        try:
            extra = json.loads(connection.extra)
        except ValueError as error:
            raise _no_object(connection.conn_id) from error
    if not isinstance(extra, dict):
        raise _no_object(connection.conn_id)
    settings = {key: value for key, value in extra.items() if value is not None and value != ""}
    return Values(connection.conn_id, connection.conn_type or "", settings)


def _unknown(name: str) -> InvalidConfiguration:
    return InvalidConfiguration(
        f"there is no Airflow connection {name!r}: make one of the cluster's type, or name another"
        " as the operator's cluster"
    )


def _denied(name: str) -> InvalidConfiguration:
    return InvalidConfiguration(
        f"the secrets backend does not give the Airflow connection {name!r} to this process: allow"
        " it, or name another as the operator's cluster"
    )


def _no_object(name: str) -> InvalidConfiguration:
    return InvalidConfiguration(
        f"the extra of the Airflow connection {name!r} is not a JSON object: mend it"
    )
