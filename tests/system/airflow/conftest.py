"""One real Airflow on a real PostgreSQL for all system tests of this folder.

And accounts of what truly ran.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.airflow import AirflowBed
from tests.support.postgres import running_postgres

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[2] / "dags_examples"


@dataclass(frozen=True)
class Account:
    """What the runs of one test wrote about themselves."""

    path: Path

    def lines(self, word: str) -> list[list[str]]:
        """The lines that begin with the word, split."""
        if not self.path.exists():
            return []
        lines = [line.split() for line in self.path.read_text().splitlines()]
        return [line for line in lines if line and line[0] == word]

    def enough(self) -> None:
        """Let what runs end well."""
        self.path.with_name(self.path.name + ".enough").touch()

    def pid(self) -> int:
        """The process of the latest start; 0 before any."""
        starts = self.lines("START")
        return int(starts[-1][1]) if starts else 0


def alive(pid: int) -> bool:
    """Whether a process of that id runs (a zombie does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    """An account for one test; nothing overlapped by its end."""
    kept = Account(tmp_path / "account")
    yield kept
    assert kept.lines("OVERLAP") == []


@pytest.fixture(scope="session")
def airflow_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowBed]:
    """Scheduler, DAG processor, triggerer and API server, on a PostgreSQL of their own."""
    home = tmp_path_factory.mktemp("airflow")
    dags = home / "dags"
    shutil.copytree(HERE / "dags", dags)
    shutil.copy(EXAMPLES / "digits_dag.py", dags)
    shutil.copytree(EXAMPLES / "digits", dags / "digits")
    with running_postgres() as postgres:
        postgres.sql("CREATE DATABASE airflow")
        bed = AirflowBed(home, dags, postgres.url("airflow"))
        try:
            bed.up()
            yield bed
        finally:
            bed.down()
