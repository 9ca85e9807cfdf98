"""The definition is imported on every call of Airflow's command line, so it must be light."""

from __future__ import annotations

import subprocess
import sys


def test_the_definition_adds_nothing_to_what_airflow_has_loaded() -> None:
    """Beyond Airflow's own parser it imports itself and its package, and no more."""
    program = (
        "import sys\n"
        "import airflow.cli.cli_config\n"
        "before = set(sys.modules)\n"
        "from airflow_dispatch.cli.definition import get_dispatch_cli_commands\n"
        "get_dispatch_cli_commands()\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    added = {name for name in done.stdout.split() if name != "airflow_dispatch"}
    assert added == {"airflow_dispatch.cli", "airflow_dispatch.cli.definition"}


def test_every_command_loads_and_has_its_help() -> None:
    """The lazy paths lead to functions; help and verbose are everywhere."""
    from airflow._shared.module_loading import import_string
    from airflow.cli.cli_config import ARG_VERBOSE, GroupCommand

    from airflow_dispatch.cli import definition

    (group,) = definition.get_dispatch_cli_commands()
    assert isinstance(group, GroupCommand)
    names = [command.name for command in group.subcommands]
    assert names == [
        *("list", "show", "history", "explain"),
        *("cancel", "supervise", "check", "doctor"),
    ]
    for command in group.subcommands:
        assert callable(import_string(f"{definition.COMMANDS}.{command.func.__name__}"))
        assert ARG_VERBOSE in command.args
