"""The layers, as far as the import contracts in pyproject.toml cannot say them.

The contracts hold the order of the layers and keep Airflow in the surface. Here: what the pure
bottom may import at all, which modules of the standard library would let a clock, a random number
or the outside into it, and that only the hub touches asyncio. Every rule is a function of one
module's source, and is itself tested on samples that break it.
"""

import ast
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from importlinter import cli as import_linter

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_dispatch"

# What each layer may import of this package. The bottom two may not import third parties either.
BELOW = {
    "errors": (),
    "limits": (),
    "core": ("core", "errors", "limits"),
    "ports": ("ports", "core", "errors", "limits"),
    "supervisor": ("supervisor", "ports", "core", "errors", "limits"),
}
# Python 3.10 has no `assert_never` of its own; this one package lends what later Pythons have.
THIRD_PARTIES_ALLOWED = {"typing_extensions"}

# The core decides from values, the supervisor acts through ports: with one of these they could look
# at, or act on, anything else. (asyncio is the hub's alone.)
IMPURE = {
    *("asyncio", "concurrent", "threading", "multiprocessing", "signal", "subprocess"),
    *("time", "random", "secrets", "uuid", "os", "sys", "io", "pathlib", "shutil", "tempfile"),
    *("socket", "ssl", "http", "urllib", "logging", "warnings", "sqlite3", "importlib"),
}
IMPURE_CALLS = {
    *("open", "print", "input", "eval", "exec"),
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today"),
}
PURE_LAYERS = {"errors", "limits", "core", "ports"}


def modules() -> Iterator[tuple[str, str]]:
    """Yield each module of the package: its dotted name below the package, and its source."""
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        parts = path.relative_to(ROOT / PACKAGE).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        yield name, path.read_text(encoding="utf-8")


def imports(source: str) -> Iterator[str]:
    """Yield the dotted name of everything that a source imports, inside functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from (f"{module}.{alias.name}" for alias in node.names)


def broken_layers(name: str, source: str) -> list[str]:
    """List the imports that a module's layer forbids."""
    layer = name.partition(".")[0]
    if layer not in BELOW:
        return []
    found = []
    for imported in imports(source):
        top, *inner = imported.split(".")
        if top == PACKAGE:
            allowed = bool(inner) and inner[0] in BELOW[layer]
        else:
            allowed = top in sys.stdlib_module_names or top in THIRD_PARTIES_ALLOWED
        if not allowed:
            found.append(f"{name} imports {imported}")
    return found


def impurities(name: str, source: str) -> list[str]:
    """List what lets a module reach beyond the values and the ports that it is given."""
    layer = name.partition(".")[0]
    if layer not in PURE_LAYERS | {"supervisor"}:
        return []
    banned = IMPURE - ({"asyncio"} if name == "supervisor.hub" else set())
    found = [f"{name} imports {x}" for x in imports(source) if x.partition(".")[0] in banned]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).replace("datetime.datetime.", "datetime.")
            if called in IMPURE_CALLS:
                found.append(f"{name}:{node.lineno} calls {called}()")
        elif isinstance(node, ast.Global):
            found.append(f"{name}:{node.lineno} changes a global")
    return found


def coroutines(name: str, source: str) -> list[str]:
    """List the coroutines of the layers that only compute: the core and what is below it."""
    if name.partition(".")[0] not in PURE_LAYERS - {"ports"}:
        return []
    kinds = (ast.AsyncFunctionDef, ast.Await)
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, kinds))
    return [f"{name}:{node.lineno} has {type(node).__name__}" for node in nodes]


Rule = Callable[[str, str], list[str]]
RULES: tuple[Rule, ...] = (broken_layers, impurities, coroutines)


@pytest.mark.parametrize("rule", RULES)
def test_every_module_keeps_the_rule(rule: Rule) -> None:
    """No module of the package breaks the rule."""
    found = [line for name, source in modules() for line in rule(name, source)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (broken_layers, "core.record", "import sqlalchemy"),
        (broken_layers, "core.record", "import airflow"),
        (broken_layers, "core.record", "from airflow_dispatch.ports.store import Store"),
        (broken_layers, "core.record", "def f():\n    from airflow_dispatch import ports"),
        (broken_layers, "core.record", "from .. import stores"),
        (broken_layers, "ports.store", "from airflow_dispatch.supervisor import passes"),
        (broken_layers, "ports", "import pendulum"),
        (broken_layers, "supervisor.loop", "from airflow_dispatch.stores import memory"),
        (broken_layers, "errors", "from airflow_dispatch import limits"),
        (impurities, "core.decision", "import time"),
        (impurities, "core.decision", "from random import choice"),
        (impurities, "core.decision", "import os.path"),
        (impurities, "core.decision", "x = datetime.now(tz=utc)"),
        (impurities, "core.decision", "x = open('y')"),
        (impurities, "core.decision", "import datetime\nx = datetime.datetime.now()"),
        (impurities, "ports.clock", "import time"),
        (coroutines, "core.decision", "async def f(): ..."),
        (impurities, "core.decision", "def f():\n    global x"),
        (impurities, "errors", "import logging"),
        (impurities, "supervisor.loop", "import asyncio"),
        (impurities, "supervisor", "from asyncio import sleep"),
        (impurities, "supervisor.hub", "import time"),
    ],
)
def test_a_rule_sees_its_breach(rule: Rule, name: str, source: str) -> None:
    """Each rule finds exactly the one fault of a sample that breaks it."""
    assert len(rule(name, source)) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("core.record", "from airflow_dispatch.core import causes\nimport hashlib, datetime"),
        ("core.record", "from typing_extensions import assert_never"),
        ("ports.store", "from airflow_dispatch.core.record import State"),
        ("supervisor.hub", "import asyncio"),
        ("supervisor.loop", "async def f():\n    await cluster.open(clock.now())"),
        ("ports.cluster", "async def open(self): ..."),
        ("stores.memory", "import asyncio, sqlalchemy"),
        ("operators.dispatch", "import airflow, time"),
    ],
)
def test_the_rules_allow_what_is_meant(name: str, source: str) -> None:
    """A sample that keeps the layers breaks no rule."""
    assert [line for rule in RULES for line in rule(name, source)] == []


def test_import_contracts_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The contracts in pyproject.toml hold for the whole graph of imports."""
    monkeypatch.chdir(ROOT)
    loggers = [
        one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)
    ]
    code = import_linter.lint_imports()
    for logger in loggers:  # The linter sets logging up for itself, which silences all others.
        logger.disabled = False
    assert code == 0, capsys.readouterr().out
