"""What a shim is told, and how much it imports to hear it."""

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

import airflow_dispatch
from airflow_dispatch.clusters.local import spec as message
from airflow_dispatch.clusters.local.spec import Answer, Spec

SPEC = Spec(
    root="/r",
    uuid="u",
    object="o",
    deployment="d\ud800",
    task_digest="t",
    generation=1,
    submission=2,
    attempt=3,
    run="/r/d/t",
    deadline=1.25,
    slots=4,
    cpus=2,
    memory_bytes=None,
    time_limit=60,
    grace=30,
    command=["a", "ä\n"],
    script="",
    workdir="",
    environment={"A": "\x01 🚀"},
)


def test_a_spec_arrives_as_it_was_sent() -> None:
    """Whatever the texts hold."""
    assert message.decode(message.encode(SPEC)) == SPEC


def test_half_a_spec_is_none() -> None:
    """Cut anywhere, a message is no message: its sender died."""
    whole = message.encode(SPEC)
    assert [n for n in range(len(whole)) if message.decode(whole[:n]) is not None] == []
    assert message.decode(whole + b" ") is None


def test_an_answer_arrives_or_does_not() -> None:
    """Half an answer is none."""
    for answer in (Answer(), Answer("no: ä", permanent=True)):
        line = message.encode_answer(answer)
        assert message.decode_answer(line) == answer
        assert message.decode_answer(line[:-1]) is None
    assert message.decode_answer(b"") is None


@pytest.mark.parametrize(
    ("code", "permanent"),
    [
        (errno.ENOSPC, False),
        (errno.EDQUOT, False),
        (errno.EAGAIN, False),
        (errno.ENOMEM, False),
        (errno.EMFILE, False),
        (errno.EIO, False),
        (errno.EACCES, True),
        (errno.EPERM, True),
        (errno.EROFS, True),
        (errno.ENAMETOOLONG, True),
        (errno.ENOTDIR, True),
    ],
)
def test_what_may_pass_is_refused_for_now(code: int, permanent: bool) -> None:
    """A full disk may have room later; a missing right will not come by itself."""
    answer = message.refused("it cannot be made", OSError(code, "x", "/some/file"))
    assert answer.permanent is permanent
    assert "/some/file" in answer.refusal
    assert "nothing was launched" in answer.refusal


def test_a_shim_imports_little() -> None:
    """A shim starts fast and stays small: no asyncio, no dataclasses, none of the core."""
    root = Path(airflow_dispatch.__file__).parents[1]
    code = (
        f"import sys; sys.path.append({str(root)!r})\n"
        "from airflow_dispatch.clusters.local import life\n"
        "import json; print(json.dumps(sorted(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, check=True, timeout=60
    )
    loaded = set(json.loads(done.stdout))
    heavy = {"asyncio", "dataclasses", "datetime", "hashlib", "inspect", "logging", "pathlib"}
    assert loaded & (heavy | {"subprocess", "tempfile", "threading", "airflow"}) == set()
    ours = {name for name in loaded if name.startswith("airflow_dispatch")}
    assert {name for name in ours if ".local" not in name} == {
        "airflow_dispatch",
        "airflow_dispatch.clusters",
        "airflow_dispatch.limits",
    }


def test_importing_the_adapter_is_cheap() -> None:
    """The package that the entry point names loads no other part of the cluster."""
    code = (
        "import sys\n"
        "from airflow_dispatch.clusters.local import adapter\n"
        "print([m for m in sys.modules if m.startswith('airflow_dispatch.')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=60
    )
    assert done.stdout.strip() == str(
        ["airflow_dispatch.clusters", "airflow_dispatch.clusters.local"]
    )
