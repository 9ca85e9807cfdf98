"""`docs/reference/cli.md` against the code: commands, options, exit codes, fields of the JSON."""

from __future__ import annotations

import re
from pathlib import Path

from airflow_dispatch.cli import document, findings
from airflow_dispatch.cli.exits import Exit
from tests.surface.cli.calling import Dispatch
from tests.surface.world import World
from tests.unit.supervisor.bench import key

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "cli.md").read_text()
SECTIONS = {
    heading.strip(): text
    for heading, text in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}


def test_every_command_and_option_is_described() -> None:
    """Each option stands in the section of its command, or in what is said of all of them."""
    from airflow.cli.cli_config import ARG_OUTPUT, ARG_VERBOSE

    from airflow_dispatch.cli import definition

    (group,) = definition.get_dispatch_cli_commands()
    common = {ARG_OUTPUT, ARG_VERBOSE, *definition.KEY}
    for command in group.subcommands:  # type: ignore[union-attr]  # it is a group
        for arg in set(command.args) - common:
            name = arg.flags[-1] if arg.flags[0].startswith("-") else arg.kwargs["metavar"]
            assert f"`{name}" in SECTIONS[command.name], f"{command.name} {name}"
        says_output = f"`{command.name}`" in SECTIONS["Output"]
        assert says_output is (ARG_OUTPUT in command.args), command.name


def test_every_exit_code_is_described() -> None:
    """With the number that programs see."""
    told = re.findall(r"^\| (\d) \|", SECTIONS["Exit codes"], re.MULTILINE)
    assert [int(code) for code in told] == [int(code) for code in Exit]


def test_every_kind_of_finding_is_described() -> None:
    """By its slug."""
    told = re.findall(r"^\| `(\w+)` \|", SECTIONS["check"], re.MULTILINE)
    assert set(told) == {kind.value for kind in findings.Kind}


def test_every_field_is_described(world: World, dispatch: Dispatch) -> None:
    """Of the documents that programs read, down to the innermost."""
    import asyncio

    asyncio.run(world.bench.made())
    asyncio.run(world.bench.drive())
    world.bench.cluster.run_ends(world.bench.only().id, 3)
    asyncio.run(world.bench.drive())
    shown = dispatch("show", key().digest, "-o", "json").json
    assert shown["schema"] == document.SCHEMA
    job = shown.pop("job")
    assert "script_bytes" in job
    for section, told in (
        ("show", shown),
        ("list", dispatch("list", "-o", "json").json[0] | {"outcome": None}),
        ("explain", dispatch("explain", key().digest, "-o", "json").json | {"outcome": None}),
    ):
        missing = {name for name in _names(told) if f"`{name}`" not in SECTIONS[section]}
        assert not missing, f"{section}: {missing}"
    entry = dispatch("history", key().digest, "-o", "json").json[0]
    assert all(f"`{name}`" in SECTIONS["history"] for name in entry)


def _names(value: object) -> set[str]:
    """Every field's name in a JSON value."""
    if isinstance(value, list):
        return {name for item in value for name in _names(item)}
    if isinstance(value, dict):
        return set(value) | _names(list(value.values()))
    return set()
