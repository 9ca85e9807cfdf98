"""An Airflow of the tests' own: a home folder made before anything imports Airflow.

Nothing of the caller's Airflow configuration is inherited. The database is SQLite in that folder,
and is made for the tests that ask for it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.surface.world import World

HOME = Path(tempfile.mkdtemp(prefix="dispatch-airflow-"))
DATABASE = f"sqlite:///{HOME}/airflow.db"
SETTINGS = {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "dags"),
    "AIRFLOW__CORE__FERNET_KEY": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
    "AIRFLOW__API_AUTH__JWT_SECRET": "only-for-tests-0123456789abcdef0123456789abcdef",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": DATABASE,
}

for _name in [name for name in os.environ if name.startswith(("AIRFLOW", "_AIRFLOW", "DISPATCH"))]:
    del os.environ[_name]
os.environ.update(SETTINGS)
(HOME / "dags").mkdir()
atexit.register(shutil.rmtree, HOME, ignore_errors=True)

SetOption = Callable[..., None]


@pytest.fixture(scope="session")
def airflow_database() -> str:
    """The metadata database with all tables, ours too: its URL."""
    airflow = str(Path(sys.executable).with_name("airflow"))
    made = subprocess.run(
        [airflow, "db", "migrate"], capture_output=True, text=True, timeout=300, check=False
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return DATABASE


@pytest.fixture
def option(monkeypatch: pytest.MonkeyPatch) -> SetOption:
    """Sets options of the `[dispatch]` section for one test, by name."""

    def set_options(**values: object) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"AIRFLOW__DISPATCH__{name.upper()}", str(value))

    return set_options


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, option: SetOption) -> World:
    """A store, a cluster and Airflow's rows in memory, which triggers find as if configured."""
    option(event_delay_seconds=0, sql_alchemy_conn="sqlite:////nowhere/airflow.db")
    world = World()
    world.install(monkeypatch)
    return world
