"""The rules of writing that no linter knows, checked on every file of the repository.

A rule is a function of a path and a text that returns what is wrong, as lines `path:line: what`.
Each is itself tested on a small sample that breaks it: a rule that can find nothing is worse than
none. Which lengths and words are meant is told in docs/contributing.md.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

import pytest

from tests.conftest import require_server
from tests.unit.test_layers import imports

ROOT = Path(__file__).parents[2]
FUNCTION_LINES_MAX = 60
MODULE_LINES_MAX = 400
DOCSTRING_LINES_MIN = 3

# Put together here, so that this file itself names none of them.
REGISTRIES = [
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
        ("maven", "org"),
        ("deb", "debian", "org"),
    )
]
MACHINE_PATH = re.compile(r"(?<![\w.~\-])/(?:work|root|home/\w|opt/wheels|tmp/(?:venv|team))\b")
IGNORE_WITHOUT_REASON = re.compile(
    r"#\s*(?:(?:ruff: )?noqa(?!: [A-Z]+\d+(?:, ?[A-Z]+\d+)* +[-#(] ?\w)"
    r"|type: ignore(?!\[[\w\-, ]+\] +# \w))"
)
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")

Rule = Callable[[PurePosixPath, str], list[str]]


def foreign_places(path: PurePosixPath, text: str) -> list[str]:
    """Find hosts of package registries, and paths that exist on one machine only."""
    return [
        f"{path}:{number}: names a place of one machine or a registry: {line.strip()[:80]}"
        for number, line in enumerate(text.splitlines(), start=1)
        if MACHINE_PATH.search(line) or any(host in line for host in REGISTRIES)
    ]


def unexplained_ignores(path: PurePosixPath, text: str) -> list[str]:
    """Find `noqa` and `type: ignore` that lack the code or the reason."""
    if path.suffix != ".py":
        return []
    return [
        f"{path}:{number}: an ignore names its code and its reason"
        for number, line in enumerate(text.splitlines(), start=1)
        if IGNORE_WITHOUT_REASON.search(line)
    ]


def missing_docstrings(path: PurePosixPath, text: str) -> list[str]:
    """Find modules and tests that do not say what they are for."""
    if path.suffix != ".py":
        return []
    tree = ast.parse(text)
    found = []
    lines = (ast.get_docstring(tree) or "").splitlines()
    wanted = DOCSTRING_LINES_MIN if path.parts[0] == "airflow_dispatch" else 1
    if len(lines) < (1 if path.name == "__init__.py" else wanted):
        found.append(f"{path}:1: the module's docstring has {len(lines)} lines, not {wanted}")
    return found + [
        f"{path}:{node.lineno}: {node.name} does not say what holds"
        for node in functions(tree)
        if node.name.startswith("test_") and not ast.get_docstring(node)
    ]


def too_long(path: PurePosixPath, text: str) -> list[str]:
    """Find modules and functions with more lines of code than one reads in a go."""
    if path.suffix != ".py":
        return []
    tree = ast.parse(text)
    code = code_lines(tree)
    found = []
    if len(code) > MODULE_LINES_MAX:
        found.append(f"{path}:1: {len(code)} lines of code, at most {MODULE_LINES_MAX}")
    for node in functions(tree):
        inside = sum(node.lineno <= line <= (node.end_lineno or 0) for line in code)
        if inside > FUNCTION_LINES_MAX:
            found.append(f"{path}:{node.lineno}: {node.name} has {inside} lines of code")
    return found


def prints(path: PurePosixPath, text: str) -> list[str]:
    """Find prints in the package outside its command line: everybody else has a journal."""
    if path.suffix != ".py" or path.parts[0] != "airflow_dispatch" or path.parts[1] == "cli":
        return []
    return [
        f"{path}:{node.lineno}: prints"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"print", "sys.stdout.write"}
    ]


def dead_links(path: PurePosixPath, text: str) -> list[str]:
    """Find relative links between our own pages that lead nowhere."""
    if path.suffix != ".md":
        return []
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        for target in LINK.findall(line):
            file = target.partition("#")[0]
            if not file or re.match(r"[a-z]+:", file):
                continue
            if not (ROOT / path.parent / file).exists():
                found.append(f"{path}:{number}: link to {file}, which is not there")
    return found


RULES: list[Rule] = [
    foreign_places,
    unexplained_ignores,
    missing_docstrings,
    too_long,
    prints,
    dead_links,
]


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function, inner ones and methods too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def code_lines(tree: ast.AST) -> set[int]:
    """Return the numbers of the lines that hold code: no blanks, comments or docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    words = {
        id(node.body[0])
        for node in ast.walk(tree)
        if isinstance(node, documented) and ast.get_docstring(node) is not None
    }
    lines: set[int] = set()
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if id(node) in words:
            continue
        if isinstance(node, ast.expr | ast.stmt | ast.alias | ast.arg | ast.keyword):
            lines |= {node.lineno, node.end_lineno or node.lineno}
        todo.extend(ast.iter_child_nodes(node))
    return lines


def files() -> list[PurePosixPath]:
    """List the repository's text files, those that are not yet committed too."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    return [PurePosixPath(name) for name in sorted(set(listed)) if name and is_text(ROOT / name)]


def is_text(path: Path) -> bool:
    """Tell whether a listed file is still there and holds text."""
    return path.is_file() and b"\0" not in path.read_bytes()[:4096]


@pytest.mark.parametrize("rule", RULES)
def test_the_repository_keeps_the_rule(rule: Rule) -> None:
    """No file of the repository breaks the rule."""
    texts = ((path, (ROOT / path).read_text(encoding="utf-8")) for path in files())
    found = [line for path, text in texts for line in rule(path, text)]
    assert not found, "\n".join(found)


DOCUMENTED = '"""What it is for,\nwhat it promises,\nwhat it must not do."""\n'


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (foreign_places, "docs/a.md", f"get it from https://{REGISTRIES[0]}/x"),
        (foreign_places, "constraints.txt", "x @ file://" + "/wo" + "rk/x.whl"),
        (foreign_places, "tests/a.py", "HOME = '/ro" + "ot/.cache'"),
        (unexplained_ignores, "tests/a.py", "x = 1  # " + "noqa"),
        (unexplained_ignores, "tests/a.py", "x = 1  # " + "noqa: E501"),
        (unexplained_ignores, "tests/a.py", "x = 1  # " + "type: ignore[misc]"),
        (missing_docstrings, "tests/a.py", "x = 1"),
        (missing_docstrings, "airflow_dispatch/a.py", '"""One line."""'),
        (missing_docstrings, "airflow_dispatch/__init__.py", ""),
        (missing_docstrings, "tests/a.py", DOCUMENTED + "def test_a():\n    assert a"),
        (
            missing_docstrings,
            "tests/a.py",
            DOCUMENTED + "class A:\n    async def test_a(self): ...",
        ),
        (too_long, "tests/a.py", "x = 1\n" * (MODULE_LINES_MAX + 1)),
        (too_long, "tests/a.py", "def f():\n" + "    x()\n" * FUNCTION_LINES_MAX),
        (too_long, "tests/a.py", "f(\n" + "    1,\n" * MODULE_LINES_MAX + ")"),
        (prints, "airflow_dispatch/core/a.py", "print('x')"),
        (prints, "airflow_dispatch/a.py", "sys.stdout.write('x')"),
        (dead_links, "docs/a.md", "see [that](nowhere/b.md#part)"),
        (dead_links, "README.md", "see [that](docs/nowhere.md)"),
    ],
)
def test_a_rule_sees_its_breach(rule: Rule, path: str, text: str) -> None:
    """Each rule finds exactly the one fault of a sample that breaks it."""
    assert len(rule(PurePosixPath(path), text)) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("docs/a.md", "a folder such as `~/work/x`, [here](#part), [there](https://example.com/a)"),
        ("docs/a.md", "see [the licence](../LICENSE)"),
        ("tests/a.py", DOCUMENTED + "x = 1  # " + "noqa: E501, S101 - a table reads better whole"),
        ("tests/a.py", DOCUMENTED + "x = 1  # " + "type: ignore[misc]  # the stub is wrong"),
        ("tests/a.py", DOCUMENTED + "# a comment\n\n" * MODULE_LINES_MAX),
        ("airflow_dispatch/cli/a.py", DOCUMENTED + "print('x')"),
        ("airflow_dispatch/py.typed", ""),
    ],
)
def test_the_rules_allow_what_is_meant(path: str, text: str) -> None:
    """A sample that is written well breaks no rule."""
    assert [line for rule in RULES for line in rule(PurePosixPath(path), text)] == []


# Import name -> distribution, for all that the package may import from outside.
DISTRIBUTIONS = {
    "airflow": "apache-airflow",
    "aiomysql": "aiomysql",
    "aiosqlite": "aiosqlite",
    "alembic": "alembic",
    "asyncpg": "asyncpg",
    "asyncssh": "asyncssh",
    "hypothesis": "hypothesis",
    "pendulum": "pendulum",
    "pytest": "pytest",
    "sqlalchemy": "SQLAlchemy",
    "typing_extensions": "typing-extensions",
}


def test_every_outside_import_is_declared() -> None:
    """What the package imports is in pyproject.toml, not just there because others need it."""
    found = set()
    for path in files():
        if path.suffix == ".py" and path.parts[0] == "airflow_dispatch":
            found |= {name.partition(".")[0] for name in imports((ROOT / path).read_text())}
    outside = {name for name in found if name not in sys.stdlib_module_names}
    assert outside - {"airflow_dispatch"} - DISTRIBUTIONS.keys() == set()
    declared = (ROOT / "pyproject.toml").read_text()
    for name in sorted(outside & DISTRIBUTIONS.keys()):
        assert re.search(rf'"{DISTRIBUTIONS[name]}[\[><]', declared), f"{name} is not declared"


def test_every_declared_dependency_is_justified_and_pinned() -> None:
    """Each dependency has its line in the decision record and its version in constraints.txt."""
    declared = re.findall(r'"([\w\-]+)(?:\[\w+\])?>=', (ROOT / "pyproject.toml").read_text())
    record = (ROOT / "docs/decisions/0001-dependencies.md").read_text()
    pinned = (ROOT / "constraints.txt").read_text().lower().splitlines()
    runtime = [name for name in declared if name != "hatchling"]
    assert len(runtime) > 10
    assert [name for name in runtime if f"`{name}`" not in record] == []
    names = {line.partition("==")[0] for line in pinned}
    assert [name for name in runtime if name.lower() not in names] == []


def test_a_server_is_found_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program on PATH is returned with its whole path."""
    program = tmp_path / "some-server"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert require_server("some-server", "not needed") == program


def test_a_missing_server_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """In CI the test fails and says how to get the server."""
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="To get it: apt-get install some-server"):
        require_server("no-such-server", "apt-get install some-server")


def test_a_missing_server_skips_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a developer's machine the test is skipped and says how to get the server."""
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="To get it: apt-get install some-server"):
        require_server("no-such-server", "apt-get install some-server")
