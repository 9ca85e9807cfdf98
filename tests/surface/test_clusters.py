"""From connections to clusters: by type, one for each name, new when the connection changes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_dispatch.clusters.local.cluster import LocalCluster
from airflow_dispatch.errors import ClusterUnavailable, InvalidConfiguration
from airflow_dispatch.surface import clusters, connections
from airflow_dispatch.surface.clusters import ConnectedClusters
from airflow_dispatch.surface.connections import Connections, DirectConnections, Values
from tests.surface.world import World


class Given:
    """Connections as the test gives them, counted."""

    def __init__(self, **settings: dict[str, object]) -> None:
        self.settings = settings
        self.reads = 0
        self.fail: Exception | None = None

    async def read(self, name: str) -> Values:
        """See `Connections.read`."""
        self.reads += 1
        await asyncio.sleep(0)
        if self.fail is not None:
            raise self.fail
        if name not in self.settings:
            raise InvalidConfiguration(f"there is no Airflow connection {name!r}")
        return Values(name, "dispatch_local", self.settings[name])


def connected(given: Connections) -> ConnectedClusters:
    """Clusters of these connections."""
    return ConnectedClusters(given, find_seconds=0, fresh_seconds=-1)


def test_the_local_kind_is_found_by_its_entry_point() -> None:
    """The installed package offers it under its connection type."""
    kind = clusters.kinds()["dispatch_local"]
    assert isinstance(kind.connect("name", {"run_root": "/runs"}), LocalCluster)


@pytest.mark.parametrize("kind", ["http", ""])
def test_a_connection_of_another_type_is_refused(kind: str) -> None:
    """With the types that would do."""
    with pytest.raises(InvalidConfiguration) as refused:
        clusters.connect(Values("http_default", kind, {}))
    assert f"'http_default' has the type {kind!r}" in str(refused.value)
    assert "use one of dispatch_local" in str(refused.value)


def test_a_broken_adapter_does_not_cost_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody else's entry point fails to load: it is told, and the rest is there."""
    from importlib.metadata import EntryPoint, entry_points

    broken = EntryPoint("broken", "no_such_module:adapter", clusters.GROUP)

    def found(group: str) -> Any:
        return [broken, *entry_points(group=group)]

    monkeypatch.setattr(clusters, "entry_points", found)
    clusters.kinds.cache_clear()
    try:
        assert "dispatch_local" in clusters.kinds()
        assert "'broken' (no_such_module:adapter) cannot be loaded" in caplog.text
    finally:
        clusters.kinds.cache_clear()


async def test_a_name_is_one_cluster(tmp_path: Path) -> None:
    """However many ask, and at once: one read, one cluster, whose Finds are shared."""
    given = Given(a={"run_root": str(tmp_path)})
    made = connected(given)
    found = await asyncio.gather(*(made.get("a") for _ in range(5)))
    assert len({id(cluster) for cluster in found}) == 1
    await made.refresh("a")
    assert await made.get("a") is found[0]


async def test_a_changed_connection_is_another_cluster(tmp_path: Path) -> None:
    """After the next trigger's start, everyone gets the new one; the old one is closed last."""
    given = Given(a={"run_root": str(tmp_path / "one")})
    made = connected(given)
    before = await made.get("a")
    given.settings["a"] = {"run_root": str(tmp_path / "two")}
    assert await made.get("a") is before
    await made.refresh("a")
    assert await made.get("a") is not before
    await made.close()


async def test_a_burst_of_triggers_reads_a_connection_once(tmp_path: Path) -> None:
    """Triggers that start together do not queue up for the same answer."""
    given = Given(a={"run_root": str(tmp_path)})
    made = ConnectedClusters(given, find_seconds=0)
    await asyncio.gather(*(made.refresh("a") for _ in range(100)))
    assert given.reads == 1


async def test_a_connection_that_was_mended_needs_no_restart(tmp_path: Path) -> None:
    """Whoever uses it reads it again after a while; Airflow not answering then changes nothing."""
    given = Given(a={"run_root": str(tmp_path / "wrong")})
    made = ConnectedClusters(given, find_seconds=0, stale_seconds=-1)
    before = await made.get("a")
    given.fail = ClusterUnavailable("Airflow does not answer")
    assert await made.get("a") is before
    given.fail, given.settings["a"] = None, {"run_root": str(tmp_path / "right")}
    assert await made.get("a") is not before


async def test_a_deleted_connection_leads_nowhere(tmp_path: Path) -> None:
    """What it led to is not used any more once its absence was seen."""
    given = Given(a={"run_root": str(tmp_path)})
    made = connected(given)
    await made.get("a")
    del given.settings["a"]
    with pytest.raises(InvalidConfiguration):
        await made.refresh("a")
    with pytest.raises(InvalidConfiguration, match="there is no Airflow connection 'a'"):
        await made.get("a")


async def test_a_connection_that_cannot_be_read_stays_what_it_was(tmp_path: Path) -> None:
    """Airflow not answering says nothing about the connection."""
    given = Given(a={"run_root": str(tmp_path)})
    made = connected(given)
    before = await made.get("a")
    given.fail = ClusterUnavailable("Airflow does not answer")
    with pytest.raises(ClusterUnavailable):
        await made.refresh("a")
    assert await made.get("a") is before


async def test_capabilities_are_asked_for_once(world: World) -> None:
    """And again only of a cluster that did not answer."""
    made = connected(world)
    world.bench.cluster.fail_finds(1)
    with pytest.raises(ClusterUnavailable):
        await made.capabilities("memory")
    first = await made.capabilities("memory")
    world.bench.cluster.fingerprint = "other"
    assert await made.capabilities("memory") is first


# --- reading connections --------------------------------------------------------------------------


def connection(extra: str | None) -> Connection:
    """A connection with that extra."""
    return Connection(conn_id="a", conn_type="dispatch_local", extra=extra)


def test_empty_fields_of_the_form_are_not_given() -> None:
    """The form stores null and empty text for what was left out."""
    extra = json.dumps({"run_root": "/r", "slots": None, "poll_seconds": ""})
    assert connections.values(connection(extra)) == Values(
        "a", "dispatch_local", {"run_root": "/r"}
    )
    assert connections.values(connection(None)).settings == {}


@pytest.mark.parametrize("extra", ["{", "[1]", '"text"', "run_root=/r"])
def test_an_extra_that_is_no_object_is_refused(extra: str) -> None:
    """Airflow itself would go on as if there were none."""
    with pytest.raises(InvalidConfiguration, match="extra of the Airflow connection 'a'"):
        connections.values(connection(extra))


async def test_a_command_finds_what_is_in_the_metadata_database(
    airflow_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process that is neither server nor task, where the SDK would look at variables only."""
    from airflow.models.connection import Connection as Row
    from airflow.utils.session import create_session

    with create_session() as session:
        session.add(Row("in_the_database", "dispatch_local", extra='{"run_root": "/r"}'))
    monkeypatch.setenv("AIRFLOW_CONN_IN_A_VARIABLE", '{"conn_type": "http"}')
    read = DirectConnections().read
    assert (await read("in_the_database")).settings == {"run_root": "/r"}
    assert (await read("in_a_variable")).connection_type == "http"
    with pytest.raises(InvalidConfiguration, match="there is no Airflow connection 'nowhere'"):
        await read("nowhere")


def test_the_form_s_test_button_says_what_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run root that is there: its fingerprint. One that is not: what is missing."""
    from airflow_dispatch.hooks.local import LocalHook

    async def made() -> str:
        cluster = clusters.connect(Values("a", "dispatch_local", {"run_root": str(tmp_path)}))
        try:
            return (await cluster.probe(create=True)).fingerprint
        finally:
            await cluster.close()

    fingerprint = asyncio.run(made())
    extra = {"conn_type": "dispatch_local", "extra": {"run_root": str(tmp_path)}}
    monkeypatch.setenv("AIRFLOW_CONN_A", json.dumps(extra))
    assert LocalHook("a").test_connection() == (True, f"Cluster {fingerprint} answers.")
    monkeypatch.setenv("AIRFLOW_CONN_A", json.dumps({"conn_type": "dispatch_local"}))
    ok, words = LocalHook("a").test_connection()
    assert not ok
    assert "run_root is missing" in words
