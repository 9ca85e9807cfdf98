"""What every test shares: marks by folder, and what a missing real server means.

Tests that start real servers ask `require_server` for the program. On a developer's machine a
missing one skips the test and says how to get it; in CI it fails, because a skipped server test
there would be a promise that nobody checks.
"""

import os
import shutil
from pathlib import Path

import pytest

# The shipped conformance suites assert like tests, wherever they are imported first.
pytest.register_assert_rewrite("airflow_dispatch.testing")

# Where Debian puts server programs that are not on PATH; `*` is a version number.
SERVER_FOLDERS = ("/usr/lib/postgresql/*/bin", "/usr/sbin", "/usr/local/sbin")

MARKS_OF_FOLDERS = {"surface": "airflow", "system": "system", "benchmarks": "benchmark"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put on each test the mark of its folder, so that nobody can forget one."""
    tests = Path(__file__).parent
    for item in items:
        if not item.path.is_relative_to(tests):
            continue
        mark = MARKS_OF_FOLDERS.get(item.path.relative_to(tests).parts[0])
        if mark is not None:
            item.add_marker(mark)


def require_server(program: str, how_to_get: str) -> Path:
    """Return where a server's program is; without it skip the test, or fail it in CI."""
    found = shutil.which(program, path=os.pathsep.join(server_folders()))
    if found is not None:
        return Path(found)
    message = f"no `{program}` on PATH or in {', '.join(SERVER_FOLDERS)}. To get it: {how_to_get}"
    if os.environ.get("CI"):
        pytest.fail(f"{message}. In CI a missing server is a failure, never a skip.")
    pytest.skip(message)


def server_folders() -> list[str]:
    """List the folders to look in: PATH first, then Debian's own, the newest version first."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for pattern in SERVER_FOLDERS:
        found = Path("/").glob(pattern.lstrip("/"))
        folders += map(str, sorted(found, key=_version_in, reverse=True))
    return folders


def _version_in(folder: Path) -> int:
    return max((int(part) for part in folder.parts if part.isdigit()), default=0)
