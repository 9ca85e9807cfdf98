"""The permit protocol in files: who may start what, who decided it first, and how it ended.

Every file of a gate folder is made whole by link(2), once, and never changed or removed:

    permit.OBJECT.P.CALL     permit P covers the start counts FIRST..LAST: "FIRST LAST DEADLINE AT"
    start.OBJECT.P.K         "started ..." by the shim or "withdrawn ..." by a supervisor
    refused.OBJECT.K.TOKEN   a permit that was seen too late counts for nothing: "late P CALL ..."
    exit.OBJECT.K            how start K ended, as JSON

Two that place the same name agree for ever on who was first; that, and no clock or lock, is what
`withdraw` and the shim rely on. [authorized-only] Times are seconds of the host's clock.

The shim uses this module too: it imports little.
"""
# ruff: noqa: PTH108, PTH208 - a shim starts faster without pathlib

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import time
from typing import BinaryIO, NamedTuple

from airflow_dispatch import limits

TEMPORARY = "tmp."


class Late(Exception):
    """The deadline of a call passed before its file was there; it will not be."""


class NoFileError(OSError):
    """In the place of a file there is something else: a folder, a pipe, a device."""


class Permit(NamedTuple):
    """One permit file."""

    number: int
    call: int
    first: int
    last: int
    deadline: float
    at: float

    def covers(self, count: int) -> bool:
        """Whether it lets that start happen."""
        return self.first <= count <= self.last


class Start(NamedTuple):
    """One decided start: it happened, or never can."""

    permit: int
    start_count: int
    started: bool
    at: float
    host: str


class Refusal(NamedTuple):
    """A permit file that the shim saw too late."""

    start_count: int
    permit: int
    call: int


class Exit(NamedTuple):
    """How a start ended. Exactly one of code and signal is set if its command ended by itself."""

    start_count: int
    reason: str
    """One of the reasons below."""
    detail: str
    code: int | None
    signal: int | None
    host: str
    boot: str
    began: float | None
    """None if it never started."""
    ended: float
    peak_bytes: int


BY_ITSELF = "by_itself"
NOT_STARTED = "not_started"
"""The command could not be started; code 126 or 127 as a shell would say."""
LAUNCH_FAILED = "launch_failed"
"""The host had no process or file for it."""
STOPPED = "stopped"
TIME_LIMIT = "time_limit"
OUT_OF_MEMORY = "out_of_memory"


_EXIT_TYPES: dict[str, tuple[type, ...]] = {
    "start_count": (int,),
    "reason": (str,),
    "detail": (str,),
    "code": (int, type(None)),
    "signal": (int, type(None)),
    "host": (str,),
    "boot": (str,),
    "began": (float, type(None)),
    "ended": (float,),
    "peak_bytes": (int,),
}


class Gate(NamedTuple):
    """Everything that a gate folder says of one object."""

    permits: tuple[Permit, ...] = ()
    starts: tuple[Start, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    exits: tuple[Exit, ...] = ()
    unreadable: tuple[str, ...] = ()

    def permit(self, count: int) -> Permit | None:
        """The first permit for that start which nobody withdrew, used or saw too late."""
        decided = {(start.permit, start.start_count) for start in self.starts}
        void = {(refusal.permit, refusal.call) for refusal in self.refusals}
        for permit in sorted(self.permits):
            undecided = (permit.number, count) not in decided
            if permit.covers(count) and undecided and (permit.number, permit.call) not in void:
                return permit
        return None

    def started(self, count: int) -> Start | None:
        """The record of that start, if it happened."""
        return next((s for s in self.starts if s.start_count == count and s.started), None)

    def exit(self, count: int) -> Exit | None:
        """The record of how that start ended."""
        return next((e for e in self.exits if e.start_count == count), None)


# --- writing --------------------------------------------------------------------------------------


def place(
    folder: str, name: str, text: str, *, durable: bool = False, not_after: float | None = None
) -> bool:
    """Create `name` whole, once for all: True if it is ours, False if somebody was first.

    The same text placed again is ours again. Raises `Late` if `not_after` has passed right before
    the link, OSError if it cannot be known that the name is there. `durable` survives a power cut.
    """
    temporary = f"{folder}/{TEMPORARY}{os.urandom(8).hex()}"
    final = f"{folder}/{name}"
    try:
        _write(temporary, text, durable=durable)
        if not_after is not None and time.time() > not_after:
            raise Late(name)
        try:
            os.link(temporary, final)
        except FileExistsError:
            return read_small(final) == text
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
    if durable:
        _sync(folder)
    return True


def _write(path: str, text: str, *, durable: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(text.encode("utf-8", "surrogatepass"))
        file.flush()
        if durable:
            os.fsync(file.fileno())


def _sync(folder: str) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def permit_name(object: str, number: int, call: int) -> str:
    """File name of a permit; the call tells repetitions of one permit apart."""
    return f"permit.{object}.{number}.{call}"


def permit_text(*, first: int, last: int, deadline: float, at: float) -> str:
    """Content of a permit."""
    return f"{first} {last} {deadline:.6f} {at:.6f}\n"


def start_name(object: str, permit: int, count: int) -> str:
    """File name of the register of one start under one permit."""
    return f"start.{object}.{permit}.{count}"


def started_text(*, token: str, host: str, pid: int, at: float) -> str:
    """Content of a start that happened."""
    return f"started {at:.6f} {host} {token} {pid}\n"


def withdrawn_text(*, token: str, host: str, at: float) -> str:
    """Content of a start that never will."""
    return f"withdrawn {at:.6f} {host} {token}\n"


def refused_name(object: str, count: int, token: str) -> str:
    """File name of a refusal; there may be several."""
    return f"refused.{object}.{count}.{token}"


def refused_text(permit: Permit, *, at: float) -> str:
    """Content of a refusal."""
    return f"late {permit.number} {permit.call} {at:.6f}\n"


def exit_name(object: str, count: int) -> str:
    """File name of an exit record."""
    return f"exit.{object}.{count}"


def exit_text(exit: Exit) -> str:
    """Content of an exit record."""
    return json.dumps(exit._asdict(), sort_keys=True) + "\n"


# --- reading --------------------------------------------------------------------------------------


def read(folder: str, object: str) -> Gate:
    """Everything of one object. Raises OSError if the folder cannot be listed.

    A file that cannot be read or understood is named in `unreadable`.
    """
    permits: list[Permit] = []
    starts: list[Start] = []
    refusals: list[Refusal] = []
    exits: list[Exit] = []
    unreadable: list[str] = []
    for name in sorted(os.listdir(folder)):
        kind, _, rest = name.partition(".")
        owner, _, numbers = rest.partition(".")
        if owner != object or kind == "tmp":
            continue
        try:
            text = read_small(f"{folder}/{name}")
            match kind:
                case "permit":
                    permits.append(_permit(numbers, text))
                case "start":
                    starts.append(_start(numbers, text))
                case "refused":
                    refusals.append(_refusal(numbers, text))
                case "exit":
                    exits.append(_exit(numbers, text))
                case _:
                    pass
        except (OSError, ValueError, KeyError, TypeError):
            unreadable.append(name)
    return Gate(tuple(permits), tuple(starts), tuple(refusals), tuple(exits), tuple(unreadable))


def started_there(folder: str, name: str) -> bool:
    """Whether the register of that name says started; ValueError if it says neither."""
    return _start("0.0", read_small(f"{folder}/{name}")).started


def read_small(path: str) -> str:
    """The text of a small file; ValueError if it is large or no UTF-8."""
    with opened(path) as file:
        data = file.read(limits.LOCAL_RECORD_BYTES_MAX + 1)
    if len(data) > limits.LOCAL_RECORD_BYTES_MAX:
        raise ValueError(f"{path} is larger than {limits.LOCAL_RECORD_BYTES_MAX} bytes")
    return data.decode("utf-8", "surrogatepass")


def opened(path: str) -> BinaryIO:
    """The file, open to be read; `NoFileError` for a pipe that nobody writes to, and the like.

    The folders belong to the user of the run, who may put anything there: a reader must not wait.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NoFileError(errno.EINVAL, "it is no regular file", path)
    return os.fdopen(descriptor, "rb")


def _permit(numbers: str, text: str) -> Permit:
    number, call = map(int, numbers.split("."))
    first, last, deadline, at = text.split()
    return Permit(number, call, int(first), int(last), float(deadline), float(at))


def _start(numbers: str, text: str) -> Start:
    permit, count = map(int, numbers.split("."))
    word, at, host, *_ = text.split()
    if word not in ("started", "withdrawn"):
        raise ValueError(f"neither started nor withdrawn: {text!r}")
    return Start(permit, count, word == "started", float(at), host)


def _refusal(numbers: str, text: str) -> Refusal:
    count = int(numbers.partition(".")[0])
    word, permit, call, _ = text.split()
    if word != "late":
        raise ValueError(f"not a refusal: {text!r}")
    return Refusal(count, int(permit), int(call))


def _exit(numbers: str, text: str) -> Exit:
    told: dict[str, object] = json.loads(text)
    typed = all(isinstance(told[name], kinds) for name, kinds in _EXIT_TYPES.items())
    if not typed or told["start_count"] != int(numbers):
        raise ValueError(f"not the exit record of start {numbers}: {text!r}")
    return Exit(*(told[name] for name in Exit._fields))  # type: ignore[arg-type]  # checked above
