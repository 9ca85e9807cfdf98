"""The reference pages of the operator and of errors say what the code says."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowFailException

from airflow_dispatch import errors, exceptions, limits
from airflow_dispatch.core.causes import MEANINGS, CauseKind
from airflow_dispatch.operators.dispatch import JOB_FIELDS, DispatchOperator
from airflow_dispatch.stores.sql.database import Database
from airflow_dispatch.stores.sql.store import SqlStore
from airflow_dispatch.surface import clusters, configuration, connections, event, jobs
from airflow_dispatch.surface.connections import DirectConnections, Values
from tests.surface.conftest import SetOption
from tests.surface.test_trigger import reported
from tests.surface.world import World, begin
from tests.unit.surface.test_event import PLACES, ended
from tests.unit.surface.test_jobs import BAD, MINIMAL

REFERENCE = Path(__file__).parents[2] / "docs/reference"


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    part = (REFERENCE / page).read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_operator_s_page_has_every_parameter() -> None:
    """In the order of the signature, and says truly which are templates."""
    told = {cells[0].strip("`"): cells for cells in rows("operator.md", "Parameters")}
    signature = inspect.signature(inspect.unwrap(DispatchOperator.__init__)).parameters
    assert list(told) == [name for name in signature if name not in ("self", "kwargs")]
    templates = {name for name, cells in told.items() if cells[2] != "no"}
    assert templates == set(JOB_FIELDS)
    for name, cells in told.items():
        default = signature[name].default
        if isinstance(default, str):
            assert cells[1] == f"`{default}`"


async def test_the_operator_s_page_has_every_field_of_the_outcome() -> None:
    """In the order in which the task returns them."""
    told = [cells[0].strip("`") for cells in rows("operator.md", "What the task returns")]
    assert told == list(event.outcome(await ended(), places=PLACES))


def test_the_page_of_errors_has_every_exception() -> None:
    """With its cause, and whether Airflow tries again."""
    told = {cells[0].strip("`"): cells for cells in rows("errors.md", "Exceptions of a task")}
    every = {
        name: kind
        for name, kind in vars(exceptions).items()
        if inspect.isclass(kind) and kind.__module__ == exceptions.__name__
    }
    assert set(told) == set(every) - {"RunFailed"}
    causes = {kind: cause for cause, kind in exceptions.BY_CAUSE.items()}
    for name, (_, cause, retried, _act) in told.items():
        kind = every[name]
        assert (retried == "no") is issubclass(kind, AirflowFailException), name
        assert cause.strip("`") == (causes[kind].value if kind in causes else ""), name


def test_the_page_of_errors_has_the_tree() -> None:
    """Every error of ours, and no other."""
    told = [cells[0].strip("`") for cells in rows("errors.md", "In our own code")]
    every = [
        name
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.DispatchError)
    ]
    assert told == [name for name in every if name != "DispatchError"]


def test_the_page_of_errors_advises_as_the_table_of_causes() -> None:
    """Both say of a cause whether a retry can help."""
    told = {cells[1].strip("`"): cells for cells in rows("errors.md", "Exceptions of a task")}
    for cause in CauseKind:
        assert (told[cause.value][2] == "yes") is MEANINGS[cause].retry_helps


def pattern(message: str) -> str:
    """A message of the page as an expression: `...`, quoted words and numbers stand for any."""
    fixed = re.split(r"'[^']*'|\.\.\.|\d+", message.strip("`"))
    return ".*".join(re.escape(part) for part in fixed)


def unmatched(heading: str, said: list[str]) -> list[str]:
    """The messages below a heading that nobody said."""
    quoted = [cells[0] for cells in rows("errors.md", heading)]
    return [one for one in quoted if not any(re.search(pattern(one), line) for line in said)]


def test_the_messages_about_a_dag_are_those_that_are_raised(tmp_path: Path) -> None:
    """Each that the page lists comes from a real mistake."""
    (tmp_path / "large.sh").write_bytes(b"#" * (limits.SCRIPT_BYTES_MAX + 1))
    mistakes = [parameters for parameters, _ in BAD]
    mistakes += [{"command": None, "script_file": name} for name in ("large.sh", "missing.sh")]
    said = []
    for parameters in mistakes:
        with pytest.raises(errors.InvalidJob) as raised:
            jobs.check({**MINIMAL, **parameters}, folder=tmp_path)
        said.append(str(raised.value))
    assert unmatched("While a DAG is parsed", said) == []


async def test_the_messages_in_the_log_are_those_that_are_told(
    world: World,
    tmp_path: Path,
    option: SetOption,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each that the page lists comes from the real thing."""
    caplog.set_level(logging.INFO)
    said = [await refusal(lambda: DirectConnections().read("nowhere"))]
    said += [await refusal(lambda: clusters.connect(Values("a", "http", {})))]
    said += [await refusal(lambda: connections.values(Connection(conn_id="a", extra="[")))]
    (tmp_path / "empty.db").touch()
    store = SqlStore(Database(f"sqlite:///{tmp_path}/empty.db"))
    said += [await refusal(store.deployment)]
    await store.close()
    trigger = world.trigger()
    world.bench.tasks.fail = 1
    work = begin(reported(trigger))
    await world.running()
    work.cancel()
    await world.until(work.done)
    await world.finished(begin(trigger.on_kill()))
    world.bench.cluster.fingerprint = "elsewhere"
    said += [await refusal(world.bench.one)]
    world.bench.row(try_number=2)
    await world.finished(begin(reported(trigger)))
    option(sql_alchemy_conn="", lease_seconds="1")
    said += [await refusal(configuration.settings)]
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"{configuration.HIDDEN}:///")
    said += [await refusal(configuration.database_url)]
    said += caplog.messages
    assert unmatched("In the task's log, while it is deferred", said) == []


async def refusal(call: Callable[[], object]) -> str:
    """What our error says."""
    try:
        found = call()
        if inspect.isawaitable(found):
            await found
    except errors.DispatchError as error:
        return str(error)
    raise AssertionError("nothing was refused")
