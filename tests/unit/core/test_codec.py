"""The codec: what is written stays readable for ever, and what is not known is never guessed.

The golden files hold how each version writes; a round trip of drawn values is in the property
tests.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from airflow_dispatch.core import codec, folding
from airflow_dispatch.core.commits import KINDS, Adopted, Authorized, Commit, Quieted, Settled
from airflow_dispatch.core.record import Record
from airflow_dispatch.errors import InvariantBroken, UnreadableRecord
from tests.unit.core import golden
from tests.unit.core.building import BINDING, at, record

VERSIONS = sorted(golden.FOLDER.glob("v*"))


def read(path: Path) -> dict[str, object]:
    """A golden file."""
    found: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return found


def history_of(folder: Path) -> list[Commit]:
    """The history of a version's golden files."""
    return [
        Commit(
            id=entry["id"],
            at=datetime.fromisoformat(entry["at"]),
            actor=entry["actor"],
            body=codec.decode_body(entry["kind"], json.dumps(entry["body"])),
        )
        for entry in json.loads((folder / "history.json").read_text(encoding="utf-8"))
    ]


# --- golden files ---------------------------------------------------------------------------------


def test_there_is_a_golden_folder_for_every_version() -> None:
    """From the first to the present one."""
    assert [folder.name for folder in VERSIONS] == [f"v{n}" for n in range(1, codec.VERSION + 1)]


@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_a_golden_history_gives_its_golden_state(folder: Path) -> None:
    """Today's fold of what was written once is what was meant then."""
    state = codec.decode_state((folder / "state.json").read_text(encoding="utf-8"))
    assert golden.replayed(history_of(folder)).state == state
    job = codec.decode_job((folder / "job.json").read_text(encoding="utf-8"))
    assert golden.replayed(history_of(folder)).job == job


@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: folder.name)
def test_each_kind_of_commit_of_each_version_is_readable(folder: Path) -> None:
    """One file a kind; a later version may know more kinds, never fewer."""
    kinds = [kind for kind, _ in KINDS.values()]
    found = [path.stem for path in sorted(folder.glob("*.json"))]
    for kind in set(found) - {"history", "state", "job"}:
        assert kind in kinds
        codec.decode_body(kind, (folder / f"{kind}.json").read_text(encoding="utf-8"))


def test_the_present_version_writes_its_golden_files() -> None:
    """A change of the written form raises the version: it never happens unnoticed."""
    folder = golden.FOLDER / f"v{codec.VERSION}"
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    assert on_disk == golden.written()


# --- strict ---------------------------------------------------------------------------------------

STATE = codec.encode_state(record(Authorized(1)).state)


def changed(change: Callable[[dict[str, dict[str, object]]], object], text: str = STATE) -> str:
    """The text with its JSON changed."""
    value = json.loads(text)
    change(value)
    return json.dumps(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "no version"),
        ("{}", "no version"),
        ('{"v": "1"}', "no version"),
        ('{"v": true}', "no version"),
        ('{"v": 0}', "version 0"),
        ('{"v": 2}', "version 2 and this program knows up to 1; upgrade"),
        ('{"v": 1}', "no 'state'"),
        ('{"v": 1, "job": {}}', "no 'state'"),
        (changed(lambda v: v.update(more={})), "'more', which this version does not know"),
        (changed(lambda v: v["state"].update(more=1)), "State has 'more'"),
        (changed(lambda v: v["state"].update({"is": "State"})), "State has 'is'"),
        (changed(lambda v: v["state"].pop("key")), "State lacks 'key'"),
        (changed(lambda v: v.update(state=[])), "State is a list"),  # type: ignore[call-overload]  # wrong on purpose
        (changed(lambda v: v["state"].update(cluster=1)), "str is 1"),
        (changed(lambda v: v["state"].update(cluster=None)), "str is None"),
        (changed(lambda v: v["state"].update(calls_made=True)), "int is True"),
        (changed(lambda v: v["state"].update(calls_made=1.0)), "int is 1.0"),
        (changed(lambda v: v["state"].update(objects={})), "list is a dict"),
        (changed(lambda v: v["state"].update(objects=[3])), "ObjectState is a int"),
        (changed(lambda v: v["state"].update(created_at="noon")), "time is 'noon'"),
        (changed(lambda v: v["state"].update(created_at=5)), "time is 5"),
        (changed(lambda v: v["state"].update(created_at="2026-03-01T12:00:00")), "without a zone"),
        (changed(lambda v: v["state"].update(permits=[["o1"]])), "1 items where 2 belong"),
        (
            changed(
                lambda v: v["state"].update(permits=[["o1", {"number": 0, "first": 0, "last": 0}]])
            ),
            "Permit is impossible",
        ),
        (
            changed(lambda v: v["state"].update(outcome={"state": "exploded"})),
            "OutcomeState is 'exploded', which this version does not know",
        ),
        (
            changed(
                lambda v: v["state"].update(
                    calls=[{"number": 1, "intent": {"is": "Hold", "object": "o1"}, "revision": 2}]
                )
            ),
            "a 'Hold', which this version does not know",
        ),
        (
            changed(
                lambda v: v["state"].update(
                    calls=[{"number": 1, "intent": {"object": "o1"}, "revision": 2}]
                )
            ),
            "a None, which this version does not know",
        ),
    ],
)
def test_what_is_not_known_is_never_guessed(text: str, message: str) -> None:
    """An older program takes no decision on what a newer one wrote [evidence-only]."""
    with pytest.raises(UnreadableRecord, match=message):
        codec.decode_state(text)


def test_an_unknown_kind_of_commit_is_refused() -> None:
    """And says that this place wants an upgrade."""
    with pytest.raises(UnreadableRecord, match="'requeued'; upgrade airflow-dispatch here"):
        codec.decode_body("requeued", '{"v": 1, "body": {}}')


def test_a_job_that_this_version_would_refuse_is_unreadable() -> None:
    """What was accepted once and is not any more: no decision, and the reason is kept."""
    text = changed(lambda v: v["job"].update(time_limit_seconds=0), codec.encode_job(golden.JOB))
    with pytest.raises(UnreadableRecord, match="Job is impossible: time_limit in seconds=0"):
        codec.decode_job(text)


def test_an_older_version_is_upgraded_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each upgrade takes the parsed JSON of one version to the next."""
    monkeypatch.setattr(codec, "VERSION", 3)
    renamed = {"1": "kluster", "2": "cluster"}

    def rename(value: dict[str, codec.Json]) -> dict[str, codec.Json]:
        state = value["state"]
        assert isinstance(state, dict)
        version = str(value["v"])
        old = {"1": "cluster", "2": "kluster"}[version]
        state[renamed[version]] = state.pop(old)
        return {**value, "v": int(version) + 1}

    monkeypatch.setattr(codec, "UPGRADES", {1: rename, 2: rename})
    assert codec.decode_state(STATE) == record(Authorized(1)).state


# --- the written form -----------------------------------------------------------------------------


def test_defaults_are_not_written() -> None:
    """Records are small, and a field that is added later has its default in older ones."""
    assert codec.encode_body(Settled()) == ("settled", '{"v":1,"body":{}}')
    assert codec.encode_body(Quieted(at(0))) == (
        "quieted",
        '{"v":1,"body":{"began":"2026-03-01T12:00:00+00:00"}}',
    )
    assert '"clear_number"' not in codec.encode_body(Adopted(BINDING))[1]


def test_a_time_without_a_zone_is_never_written() -> None:
    """It would mean another moment wherever it is read."""
    naive = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - the point of the test
    with pytest.raises(InvariantBroken, match="aware"):
        codec.encode_body(Quieted(naive))


def test_a_value_of_another_type_is_never_written() -> None:
    """A slip of ours shows where it is made, not where it is read."""
    wrong = folding.begin(golden.commits()[0])
    state = Record(1, wrong.state, wrong.job).state
    object.__setattr__(state, "outcome", 5)
    with pytest.raises(InvariantBroken, match="5 is not a Outcome or NoneType"):
        codec.encode_state(state)
