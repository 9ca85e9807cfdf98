"""What a trigger tells its task: plain JSON, the same for every way in which a run can end."""

from __future__ import annotations

import json

import pytest

from airflow_dispatch import limits
from airflow_dispatch.core.causes import Cause, CauseKind
from airflow_dispatch.core.record import Record
from airflow_dispatch.errors import InvariantBroken
from airflow_dispatch.ports.cluster import Places
from airflow_dispatch.supervisor import acts
from airflow_dispatch.surface import event
from tests.unit.supervisor.bench import Bench, key

PLACES = Places("/runs/1.1", "/runs/1.1/output", "/runs/1.1/result.json")


async def ended(code: int = 0, *, cause: Cause | None = None) -> Record:
    """The record of a run that waited 5 s for its gate and ran 60 s."""
    bench = Bench()
    await bench.made()
    bench.pass_time(5)
    await bench.drive()
    bench.pass_time(60)
    bench.cluster.run_ends(bench.only().id, code, cause=cause)
    return await bench.drive()


async def test_a_success_is_told_with_its_times_and_places() -> None:
    """Exit code 0, the times by the cluster's clock, where the output is."""
    record = await ended()
    told = event.outcome(record, places=PLACES)
    assert (told["state"], told["exit_code"], told["cause"]) == ("succeeded", 0, None)
    assert (told["queue_seconds"], told["run_seconds"]) == (5.0, 60.0)
    assert (told["run_folder"], told["output"]) == ("/runs/1.1", "/runs/1.1/output")
    assert told["key"] == record.state.key.digest
    assert (told["generation"], told["submissions"], told["cluster"]) == (1, 1, "memory")
    assert told["object"] == record.state.submissions[0].canonical
    assert json.loads(json.dumps(told)) == told


async def test_a_failure_is_told_with_its_cause() -> None:
    """The exit code of the command, and no other."""
    told = event.outcome(await ended(3), places=PLACES)
    assert (told["state"], told["cause"], told["exit_code"]) == ("failed", "exit", 3)
    killed = Cause(CauseKind.SIGNAL, 9, "killed")
    told = event.outcome(await ended(1, cause=killed), places=None)
    assert (told["cause"], told["exit_code"], told["signal"]) == ("signal", None, 9)
    assert (told["detail"], told["output"]) == ("killed", "")


async def test_a_cancel_before_any_launch_is_told_without_an_object() -> None:
    """Nothing is made up about a run that never was."""
    bench = Bench()
    await bench.made()
    record = await acts.cancel(bench.services(), key(), actor="person:ada", reason="wrong data")
    told = event.outcome(record, places=None)
    assert (told["state"], told["actor"], told["reason"]) == (
        "cancelled",
        "person:ada",
        "wrong data",
    )
    assert (told["object"], told["started_at"], told["run_seconds"]) == (None, None, None)
    assert (told["exit_code"], told["submissions"]) == (None, 0)
    assert not told["deadline_passed"]
    assert event.deciding_object(record) is None


async def test_a_passed_deadline_is_told_apart_from_other_cancels() -> None:
    """The cancel of the trigger's own deadline is known by its reason."""
    bench = Bench()
    await bench.made()
    record = await acts.cancel(bench.services(), key(), actor="airflow", reason=event.DEADLINE)
    assert event.outcome(record, places=None)["deadline_passed"]


async def test_only_an_outcome_can_be_told() -> None:
    """A record that has none is a defect of the caller."""
    with pytest.raises(InvariantBroken):
        event.outcome(await Bench().made(), places=None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Expecting value"),
        ("{'accuracy': 1}", "Expecting property name"),
        ('{"loss": NaN}', "holds NaN"),
        ("[" * 100_000, "nested more than 100 levels"),
        ("[" * 101 + "]" * 101, "nested more than 100 levels"),
        ('"' + "x" * limits.RESULT_BYTES_MAX + '"', "larger than 256 KiB"),
    ],
    ids=["empty", "python", "nan", "very deep", "deep", "large"],
)
def test_a_result_that_is_no_json_is_said_to_be_none(text: str, words: str) -> None:
    """What XCom could not hold or another program not read is refused, with the reason."""
    with pytest.raises(ValueError, match=words):
        event.parsed_result(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": [{"__classname__": "os.system"}]}', "'__classname__'"),
        ('[{"__id__": 1}]', "'__id__'"),
        ('["a\\u0000b"]', "character"),
        ('{"\\u0000": 1}', "character"),
        ('"\\ud800"', "character"),
        ("[1e999]", "too large for a float"),
        ("18446744073709551616", "more than 64 bits"),
        ("-9223372036854775809", "more than 64 bits"),
    ],
)
def test_json_that_no_xcom_holds_is_refused_by_name(text: str, words: str) -> None:
    """Airflow would fail the task with words of its own that do not name the result."""
    with pytest.raises(ValueError, match=words):
        event.parsed_result(text)


def test_a_result_is_taken_as_it_is() -> None:
    """Any JSON value."""
    assert event.parsed_result('{"a": [1, null, "ä"]}') == {"a": [1, None, "ä"]}
    assert event.parsed_result("3.5") == 3.5
    assert event.parsed_result("[18446744073709551615, -9223372036854775808]")
    assert event.parsed_result('{"__type": "dict", "__var": "\\ud83d\\ude80"}')
    assert event.parsed_result("[" * 100 + "]" * 100)


async def test_an_event_holds_the_result_as_its_text() -> None:
    """Airflow must not read meaning into the keys of a result, nor a database stumble over it."""
    record = await ended()
    told = event.ended(record, places=PLACES, result='{"__classname__": "os.system"}')
    assert (told["result"], told["result_lost"]) == ('{"__classname__": "os.system"}', "")
    assert (told["result_wrong"], told["result_file"]) == (False, PLACES.result)
    told = event.ended(record, places=PLACES, result="\0")
    assert (told["result"], told["result_wrong"]) == (None, True)
    assert "NUL" in told["result_lost"]


async def test_hostile_words_of_a_cause_are_text_for_every_database() -> None:
    """A NUL in what a cluster says does not keep the event from being stored."""
    record = await ended(1, cause=Cause(CauseKind.UNKNOWN, detail="a\0b"))
    assert event.outcome(record, places=None)["detail"] == "a\ufffdb"
