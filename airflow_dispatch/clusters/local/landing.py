"""How an object comes to be: the shim makes its own entry, holding its lock, before its deadline.

An entry is built under a temporary name and renamed into place while the shim holds its lock. So an
entry never exists without a shim that was alive when it appeared; whoever started the shim may die
at any line; and one tag lands at most once, because a rename onto an existing entry fails. The gate
is looked at before that: a tag that has any record there is not landed, so that what lands is born
behind a gate which nobody has opened.
"""
# ruff: noqa: PTH102, PTH103, PTH104, PTH106, PTH108, PTH112, PTH123, PTH208 - a shim starts faster without pathlib

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from typing import NamedTuple

from airflow_dispatch.clusters.local import gate, layout, proc
from airflow_dispatch.clusters.local.spec import Answer, Spec, refused


class Landed(NamedTuple):
    """The shim's own entry, and the descriptors whose locks say that it and its run are alive."""

    entry: str
    submission: str
    lock: int
    alive: int

    @property
    def gate(self) -> str:
        """The folder of the permit protocol."""
        return f"{self.submission}/{layout.GATE}"


def land(spec: Spec) -> Landed | Answer:
    """Make folders, script and entry. An answer says that this shim holds no object."""
    missing = wrong_root(spec.root, spec.uuid)
    if missing:
        return Answer(f"{missing}; nothing was launched")
    no = _workdir_refusal(spec.workdir)
    if no:
        return Answer(no, permanent=True)
    try:
        submission = _make_folders(spec)
        if spec.script:
            _install_script(submission, spec.script)
    except OSError as error:
        return refused("the run folder cannot be made", error)
    spool = layout.spool(spec.root, spec.task_digest)
    temporary = f"{spool}/{layout.TEMPORARY}{spec.object}.{os.urandom(8).hex()}"
    try:
        os.makedirs(spool, exist_ok=True)
        return _land(spec, temporary, entry=f"{spool}/{spec.object}", submission=submission)
    except OSError as error:
        return refused("the queue's entry cannot be made", error)
    finally:
        _clear(temporary)


def wrong_root(root: str, uuid: str) -> str:
    """Why the run root is not the one that was meant; empty if it is."""
    try:
        told = json.loads(gate.read_small(f"{root}/{layout.MARKER}"))
        found = told["uuid"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"the run root {root} has no readable marker ({error})"
    return "" if found == uuid else f"the run root {root} is another one than it was ({found})"


def _workdir_refusal(workdir: str) -> str:
    if not workdir:
        return ""
    here = os.uname().nodename
    if not os.path.isdir(workdir):
        return f"workdir={workdir!r}: no such folder on {here}; make it, or leave workdir empty"
    if not os.access(workdir, os.W_OK | os.X_OK):
        return f"workdir={workdir!r}: the run could not write there on {here}; mend its permissions"
    return ""


def _make_folders(spec: Spec) -> str:
    submission = layout.submission_folder(spec.run, spec.generation, spec.submission)
    os.makedirs(f"{spec.run}/{layout.CHECKPOINTS}", exist_ok=True)
    os.makedirs(f"{submission}/{layout.GATE}", exist_ok=True)
    return submission


def _install_script(submission: str, script: str) -> None:
    """Put the script there whole. All attempts of a submission have the same one."""
    temporary = f"{submission}/{gate.TEMPORARY}{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o700), "wb") as file:
        file.write(script.encode("utf-8"))
    os.rename(temporary, f"{submission}/{layout.SCRIPT}")


def _land(spec: Spec, temporary: str, *, entry: str, submission: str) -> Landed | Answer:
    os.mkdir(temporary)
    lock = proc.lock(f"{temporary}/{layout.LOCK}")
    alive = proc.lock(f"{temporary}/{layout.ALIVE}")
    if lock is None or alive is None:
        return Answer("a new file is locked by somebody else; nothing was launched")
    with open(f"{temporary}/{layout.LOG}", "x", encoding="utf-8"):
        pass  # There from the start, so that nothing appears later that is no news.
    me = proc.look(os.getpid())
    told = {
        "mark": spec.mark,
        "host": os.uname().nodename,
        "boot": proc.boot_id(),
        "pid": os.getpid(),
        "start": 0 if me is None else me.start,
        "made_at": time.time(),
        "cpus": spec.cpus,
    }
    with open(f"{temporary}/{layout.ENTRY}", "w", encoding="ascii") as file:
        json.dump(told, file, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())  # A power cut must not leave an entry that nobody can read.
    used = gate.read(f"{submission}/{layout.GATE}", spec.object)
    if used != gate.Gate() and not os.path.isdir(entry):
        return Answer(
            f"the tag {spec.object} was used before; nothing was launched", permanent=True
        )
    late = time.time() - spec.deadline
    if late > 0:
        return Answer(f"the call's deadline had passed {late:.1f} s ago; nothing was launched")
    try:
        os.rename(temporary, entry)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise
        return _twin(spec, entry)
    return Landed(entry, submission, lock, alive)


def _twin(spec: Spec, entry: str) -> Answer:
    """The tag landed before. The same call again is answered like the first."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        if json.loads(gate.read_small(f"{entry}/{layout.ENTRY}"))["mark"] == spec.mark:
            return Answer()
    return Answer(
        f"the tag {spec.object} is another object's; nothing was launched", permanent=True
    )


def _clear(temporary: str) -> None:
    """Remove what did not become an entry."""
    with contextlib.suppress(OSError):
        for name in os.listdir(temporary):
            os.unlink(f"{temporary}/{name}")
        os.rmdir(temporary)
