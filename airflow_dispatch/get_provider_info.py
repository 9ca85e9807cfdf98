"""What Airflow is told of this provider: its parts, connection types, options and commands.

Airflow calls `get_provider_info` in every process, while it is being imported: nothing here may
import Airflow or take time. The plugin is not listed, because Airflow ignores that key by default;
it has an entry point of its own.
"""

from __future__ import annotations

from airflow_dispatch.surface.options import OPTIONS, SECTION, VERSION_ADDED, Option

INTEGRATION = "Dispatch"


def get_provider_info() -> dict[str, object]:
    """The provider's description in the form of Airflow's `provider_info.schema.json`."""
    return {
        "package-name": "airflow-dispatch",
        "name": "Dispatch",
        "description": "Sends one training run to a scheduler and supervises it until its record"
        " says how it ended.",
        "integrations": [{"integration-name": INTEGRATION, "tags": ["compute"]}],
        "operators": [_modules("airflow_dispatch.operators.dispatch")],
        "triggers": [_modules("airflow_dispatch.triggers.dispatch")],
        "hooks": [_modules("airflow_dispatch.hooks.local")],
        "connection-types": [LOCAL_CONNECTION],
        "config": {
            SECTION: {
                "description": "Records, supervision and defaults of Dispatch.",
                "options": {option.name: _described(option) for option in OPTIONS},
            }
        },
        "cli": ["airflow_dispatch.cli.definition.get_dispatch_cli_commands"],
        "db-managers": ["airflow_dispatch.db.manager.DispatchDBManager"],
    }


def _modules(module: str) -> dict[str, object]:
    return {"integration-name": INTEGRATION, "python-modules": [module]}


def _described(option: Option) -> dict[str, object]:
    described: dict[str, object] = {
        "description": option.description,
        "version_added": VERSION_ADDED,
        "type": "string",
        "example": option.example,
        "default": option.default,
    }
    if option.sensitive:
        described["sensitive"] = True
    return described


def _field(label: str, kind: str, description: str) -> dict[str, object]:
    return {"label": label, "description": description, "schema": {"type": [kind, "null"]}}


LOCAL_CONNECTION: dict[str, object] = {
    "connection-type": "dispatch_local",
    "hook-name": "Dispatch: local",
    "hook-class-name": "airflow_dispatch.hooks.local.LocalHook",
    "conn-fields": {
        "run_root": _field(
            "Run root",
            "string",
            "Folder on a disk of the host where the triggerer runs; made at first use.",
        ),
        "slots": _field(
            "Slots", "integer", "CPUs that runs may hold together; empty: all of the host's."
        ),
        "poll_seconds": _field(
            "Poll seconds", "number", "How often a run in progress is looked at; empty: 0.1."
        ),
    },
    "ui-field-behaviour": {
        "hidden-fields": ["host", "schema", "login", "password", "port", "extra"],
        "relabeling": {},
        "placeholders": {"run_root": "~/dispatch"},
    },
}
