"""The permit protocol's files: made once for all, read back as they are, never half read."""

import errno
import json
import os
from pathlib import Path

import pytest

from airflow_dispatch.clusters.local import gate
from airflow_dispatch.clusters.local.gate import Exit, Gate, Permit, Start

EXIT = Exit(0, gate.BY_ITSELF, "ä", 3, None, "host", "boot", 1.5, 2.5, 4096)


def test_a_name_is_placed_once_for_all(tmp_path: Path) -> None:
    """The first text stays; who comes later is told so, and who repeats itself is the first."""
    folder = str(tmp_path)
    assert gate.place(folder, "name", "one")
    assert not gate.place(folder, "name", "two")
    assert gate.place(folder, "name", "one", durable=True)
    assert gate.read_small(f"{folder}/name") == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["name"]


def test_nothing_is_placed_late(tmp_path: Path) -> None:
    """A deadline that has passed leaves nothing behind."""
    with pytest.raises(gate.Late):
        gate.place(str(tmp_path), "name", "text", not_after=0.0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["write", "fsync", "link"])
def test_a_failed_placing_leaves_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """An error at any step is raised, and the name is there whole or not at all."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(
        *{
            "write": (gate, "_write", fail),
            "fsync": (os, "fsync", fail),
            "link": (os, "link", fail),
        }[step]
    )
    with pytest.raises(OSError, match="full"):
        gate.place(str(tmp_path), "name", "text", durable=True)
    assert list(tmp_path.iterdir()) == []


def test_an_error_after_the_link_can_be_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that was linked and not made safe is found to be ours by the next try."""

    def fail(_: str) -> None:
        raise OSError(errno.EIO, "no sync")

    with monkeypatch.context() as patch:
        patch.setattr(gate, "_sync", fail)
        with pytest.raises(OSError, match="no sync"):
            gate.place(str(tmp_path), "name", "text", durable=True)
    assert gate.place(str(tmp_path), "name", "text", durable=True)


def test_files_are_read_back_as_written(tmp_path: Path) -> None:
    """Each kind of file gives back what was put into it; other objects' files are passed over."""
    folder = str(tmp_path)
    permit = Permit(2, 7, 0, 1, 100.5, 70.25)
    text = gate.permit_text(first=0, last=1, deadline=100.5, at=70.25)
    gate.place(folder, gate.permit_name("mine", 2, 7), text)
    gate.place(folder, gate.permit_name("mine-too", 2, 7), text)
    gate.place(folder, gate.permit_name("min", 2, 7), text)
    gate.place(
        folder,
        gate.start_name("mine", 2, 0),
        gate.started_text(token="t", host="h", pid=1, at=71.0),
    )
    gate.place(
        folder, gate.start_name("mine", 2, 1), gate.withdrawn_text(token="t", host="g", at=72.0)
    )
    gate.place(folder, gate.refused_name("mine", 0, "t"), gate.refused_text(permit, at=106.0))
    gate.place(folder, gate.exit_name("mine", 0), gate.exit_text(EXIT))
    gate.place(folder, "tmp.mine.0", "half")
    assert gate.read(folder, "mine") == Gate(
        (permit,),
        (Start(2, 0, True, 71.0, "h"), Start(2, 1, False, 72.0, "g")),
        (gate.Refusal(0, 2, 7),),
        (EXIT,),
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("permit.x.1.1", ""),
        ("permit.x.1", "0 0 1.0 1.0\n"),
        ("permit.x.1.1", "0 0 1.0\n"),
        ("permit.x.one.1", "0 0 1.0 1.0\n"),
        ("start.x.1.0", ""),
        ("start.x.1.0", "perhaps 1.0 host token\n"),
        ("start.x.1.0", "started"),
        ("refused.x.0.t", "early 1 1 1.0\n"),
        ("exit.x.0", ""),
        ("exit.x.0", "{"),
        ("exit.x.0", "[]"),
        ("exit.x.0", "{}"),
        ("exit.x.0", gate.exit_text(EXIT._replace(start_count=1))),
        ("exit.x.0", gate.exit_text(EXIT).replace("3", '"0"', 1)),
        ("exit.x.0", json.dumps({**EXIT._asdict(), "ended": None})),
        ("exit.x.0", "x" * (65 << 10)),
    ],
)
def test_a_file_that_says_nothing_is_named(tmp_path: Path, name: str, text: str) -> None:
    """What cannot be understood is neither a fact nor an absence: it is unreadable."""
    (tmp_path / name).write_text(text)
    assert gate.read(str(tmp_path), "x") == Gate(unreadable=(name,))


def test_bytes_that_are_no_text_are_unreadable(tmp_path: Path) -> None:
    """A file of garbage is named too."""
    (tmp_path / "exit.x.0").write_bytes(b"\xff\xfe\0")
    assert gate.read(str(tmp_path), "x").unreadable == ("exit.x.0",)


def test_a_later_version_may_say_more(tmp_path: Path) -> None:
    """An exit record with fields that this version does not know is read for those it does."""
    (tmp_path / "exit.x.0").write_text(json.dumps({**EXIT._asdict(), "energy_joules": 1}))
    assert gate.read(str(tmp_path), "x").exits == (EXIT,)


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    """No folder is not an empty one."""
    with pytest.raises(FileNotFoundError):
        gate.read(str(tmp_path / "none"), "x")


ONE, AGAIN, TWO = (
    Permit(1, 1, 0, 0, 9.0, 1.0),
    Permit(1, 4, 0, 0, 19.0, 2.0),
    Permit(2, 6, 0, 1, 9.0, 3.0),
)


@pytest.mark.parametrize(
    ("found", "count", "counts"),
    [
        (Gate(), 0, None),
        (Gate((ONE,)), 0, ONE),
        (Gate((AGAIN, ONE)), 0, ONE),
        (Gate((ONE,)), 1, None),
        (Gate((TWO,)), 1, TWO),
        (Gate((ONE, TWO), (Start(1, 0, False, 1.0, ""),)), 0, TWO),
        (Gate((ONE, AGAIN), (Start(1, 0, False, 1.0, ""),)), 0, None),
        (Gate((ONE,), (Start(1, 0, True, 1.0, ""),)), 0, None),
        (Gate((TWO,), (Start(2, 0, False, 1.0, ""),)), 1, TWO),
        (Gate((ONE, AGAIN), refusals=(gate.Refusal(0, 1, 1),)), 0, AGAIN),
        (Gate((ONE,), refusals=(gate.Refusal(0, 1, 1),)), 0, None),
    ],
)
def test_the_permit_that_counts(found: Gate, count: int, counts: Permit | None) -> None:
    """The first one that covers the start, was not seen too late, and is not decided."""
    assert found.permit(count) == counts
