"""What Airflow is told of the provider: by its own schema, its own manager, its own form."""

from __future__ import annotations

import importlib
import subprocess
import sys
from importlib.metadata import distribution, entry_points
from typing import Any

import pytest

from airflow_dispatch.clusters.local.settings import NAMES
from airflow_dispatch.get_provider_info import get_provider_info

INFO: dict[str, Any] = get_provider_info()


def test_it_keeps_airflow_s_schema() -> None:
    """As Airflow itself checks it, at every start."""
    from airflow import providers_manager

    validator: Any = providers_manager._create_provider_info_schema_validator()  # type: ignore[no-untyped-call]  # Airflow's
    assert validator.is_valid(INFO)
    assert not validator.is_valid({**INFO, "config": {"dispatch": {}}})


def test_everything_it_names_is_there() -> None:
    """Modules, hook, commands, database manager."""
    modules = [
        module
        for kind in ("operators", "triggers", "hooks")
        for part in INFO[kind]
        for module in part["python-modules"]
    ]
    for module in modules:
        importlib.import_module(module)
    names = [*INFO["cli"], *INFO["db-managers"]]
    names += [one["hook-class-name"] for one in INFO["connection-types"]]
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute)


def test_airflow_finds_it_once() -> None:
    """By its one entry point; the package has no plugin that Airflow would have to load."""
    ours = distribution("airflow-dispatch").entry_points
    assert [entry.value for entry in ours.select(group="apache_airflow_provider")] == [
        "airflow_dispatch.get_provider_info:get_provider_info"
    ]
    assert [e for e in entry_points(group="airflow.plugins") if "dispatch" in e.value] == []


def test_importing_it_takes_nothing_along() -> None:
    """Airflow imports it while it is being imported itself, in every process."""
    program = (
        "import sys; before = set(sys.modules);"
        "import airflow_dispatch.get_provider_info;"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    found = done.stdout.decode().split()
    assert "airflow_dispatch.get_provider_info" in found
    outside = [name for name in found if name.partition(".")[0] not in sys.stdlib_module_names]
    assert outside == [
        "airflow_dispatch",
        "airflow_dispatch.get_provider_info",
        "airflow_dispatch.surface",
        "airflow_dispatch.surface.options",
    ]


def test_the_form_has_the_settings_of_the_local_cluster() -> None:
    """Each of them, and no other; Airflow's own fields that mean nothing are hidden."""
    (local,) = INFO["connection-types"]
    assert set(local["conn-fields"]) == set(NAMES)
    hidden = set(local["ui-field-behaviour"]["hidden-fields"])
    assert hidden == {"host", "schema", "login", "password", "port", "extra"}


def test_airflow_shows_the_form() -> None:
    """Its providers manager takes fields, placeholders and hook as they are meant."""
    from airflow.providers_manager import ProvidersManager
    from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

    manager = ProvidersManager()  # type: ignore[no-untyped-call]  # Airflow's
    hooks = ProvidersManagerTaskRuntime().hooks  # type: ignore[no-untyped-call]  # Airflow's
    hook = hooks["dispatch_local"]
    assert hook is not None
    assert hook.hook_name == "Dispatch: local"
    assert hook.connection_testable
    widgets = manager.connection_form_widgets
    assert {name for name in widgets if name.startswith("extra__dispatch_local__")} == {
        f"extra__dispatch_local__{name}" for name in NAMES
    }
    placeholders = manager.field_behaviours["dispatch_local"]["placeholders"]
    assert placeholders == {"extra__dispatch_local__run_root": "~/dispatch"}


def test_airflow_lists_the_trigger() -> None:
    """Under the provider's name."""
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()  # type: ignore[no-untyped-call]  # Airflow's
    listed = [info.trigger_class_name for info in manager.trigger]
    assert "airflow_dispatch.triggers.dispatch" in " ".join(map(str, listed))


@pytest.mark.parametrize("option", INFO["config"]["dispatch"]["options"].values(), ids=str)
def test_each_option_says_what_it_is_for(option: dict[str, Any]) -> None:
    """In whole sentences, with an example."""
    assert option["description"].endswith(".")
    assert option["example"]
