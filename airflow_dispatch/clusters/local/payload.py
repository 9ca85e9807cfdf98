"""The run itself: started in a session of its own, watched, ended with everything it left behind.

The shim adopts every orphan below it (it is their subreaper), so that while it lives nothing of the
run escapes by being forked twice. What ends a run before its command does: a stop, the time limit,
the memory limit. Each of them decides the cause whatever the exit code says then: a command that
saves its work and exits 0 because it was told to end has not succeeded. [evidence-only]
"""
# ruff: noqa: PTH108, PTH123, PTH208 - a shim starts faster without pathlib

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import NamedTuple

from airflow_dispatch import limits
from airflow_dispatch.clusters.local import gate, layout, proc
from airflow_dispatch.clusters.local.ear import Ear, now
from airflow_dispatch.clusters.local.landing import Landed
from airflow_dispatch.clusters.local.spec import Spec
from airflow_dispatch.clusters.local.waiting import COUNT

_SET_CHILD_SUBREAPER = 36
_KILL_SECONDS_MAX = 5.0
"""How long a kill is waited for before the end is recorded all the same."""
_LOOK_SHARE = 20
"""Looking at all processes for their memory takes at most a twentieth of the time."""


_SCARCE = (OSError, MemoryError)
"""What looking at processes may come to where the host has no descriptor or no memory left."""


class Ending(NamedTuple):
    """Why a run is being ended, and when mercy ends."""

    reason: str
    detail: str
    kill_at: float


class End(NamedTuple):
    """How the command ended."""

    code: int | None
    signal: int | None


def adopt_orphans() -> None:
    """Become the parent of whatever loses its own below this process."""
    with contextlib.suppress(ImportError):  # Some builds of Python have no ctypes; marks remain.
        import ctypes  # noqa: PLC0415 - see above

        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run(spec: Spec, landed: Landed, ear: Ear, *, slots: list[int]) -> gate.Exit:
    """Start the command and see it to its end."""
    began, clock = time.time(), now()
    try:
        pid, error = _spawn(spec, landed, slots=slots)
    except OSError as failed:
        detail = f"{os.strerror(failed.errno or 0)} ({failed.filename or 'no process'})"
        return record(gate.LAUNCH_FAILED, f"the run could not be started: {detail}", began=began)
    if error:
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return record(gate.NOT_STARTED, error, began=began, code=code)
    _tell_process(landed, pid)
    watched = Watched(spec, ear, pid=pid, limit_at=clock + spec.time_limit)
    end = watched.until_the_end()
    watched.end_leftovers()
    reason, detail, _ = watched.ending or Ending(gate.BY_ITSELF, "", 0.0)
    return record(reason, detail, began=began, end=end, peak=watched.peak_bytes)


def _tell_process(landed: Landed, pid: int) -> None:
    """For people, and for whoever has to end the run without its shim. A full disk keeps none."""
    process = proc.look(pid)
    if process is not None:
        with contextlib.suppress(OSError):
            gate.place(landed.entry, layout.PAYLOAD, f"{pid} {process.start}\n")


def record(
    reason: str,
    detail: str,
    *,
    began: float | None = None,
    code: int | None = None,
    end: End | None = None,
    peak: int = 0,
) -> gate.Exit:
    """The exit record of this shim's one start."""
    return gate.Exit(
        start_count=COUNT,
        reason=reason,
        detail=detail,
        code=code if end is None else end.code,
        signal=None if end is None else end.signal,
        host=os.uname().nodename,
        boot=proc.boot_id(),
        began=began,
        ended=time.time(),
        peak_bytes=peak,
    )


# --- while it runs --------------------------------------------------------------------------------


class Watched:
    """A started command and everything below it."""

    def __init__(self, spec: Spec, ear: Ear, *, pid: int, limit_at: float) -> None:
        self._spec = spec
        self._ear = ear
        self._pid = pid
        self._limit_at = limit_at
        self._look_at = 0.0
        self._end: End | None = None
        self.ending: Ending | None = None
        self.peak_bytes = 0

    def until_the_end(self) -> End:
        """Wait for the command to end, or bring that about."""
        while True:
            self._reap()
            if self._end is not None:
                return self._end
            # What cannot be looked at now (no descriptor left on the host) is looked at again.
            with contextlib.suppress(*_SCARCE):
                if self.ending is None:
                    self._check()
                elif now() >= self.ending.kill_at:
                    signal_all(self._spec, signal.SIGKILL)
            self._ear.pause()

    def end_leftovers(self) -> None:
        """End what the command left behind: it was warned already, or is warned now."""
        kill_at = now() if self.ending is None else self.ending.kill_at
        if self.ending is None and signalled(self._spec, signal.SIGTERM):
            kill_at += limits.LOCAL_LEFTOVER_SECONDS
        while now() < kill_at + _KILL_SECONDS_MAX and left(self._spec):
            if now() >= kill_at:
                signalled(self._spec, signal.SIGKILL)
            self._ear.pause()
            self._reap()

    def _reap(self) -> None:
        """Take leave of all ended children, the command's own end among them."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._pid:
                code = os.waitstatus_to_exitcode(status)
                self._end = End(code, None) if code >= 0 else End(None, -code)
                self.peak_bytes = max(self.peak_bytes, usage.ru_maxrss * 1024)

    def _check(self) -> None:
        """End the run if it was asked to end or took too much."""
        stop, clock = self._ear.stop(), now()
        if stop is not None:
            self._warn(Ending(gate.STOPPED, stop.reason, clock + stop.grace))
        elif clock >= self._limit_at:
            detail = f"its time limit of {self._spec.time_limit} s passed"
            self._warn(Ending(gate.TIME_LIMIT, detail, clock + self._spec.grace))
        elif self._spec.memory_bytes is not None and clock >= self._look_at:
            self._check_memory(self._spec.memory_bytes)

    def _check_memory(self, most: int) -> None:
        clock = now()
        used = sum(process.resident_bytes for process in proc.descendants(os.getpid()))
        self._look_at = now() + _LOOK_SHARE * (now() - clock)
        self.peak_bytes = max(self.peak_bytes, used)
        if used > most:
            detail = f"its processes held {_amount(used)}, more than the {_amount(most)} asked for"
            self.ending = Ending(gate.OUT_OF_MEMORY, detail, clock)
            signal_all(self._spec, signal.SIGKILL)

    def _warn(self, ending: Ending) -> None:
        self._reap()
        if self._end is None:  # An end just before the warning stands as it is.
            self.ending = ending
            signal_all(self._spec, signal.SIGTERM)


def _amount(number: int) -> str:
    """So many bytes, as people read them."""
    return f"{number / 2**30:.2f} GiB" if number >= 2**30 else f"{number / 2**20:.1f} MiB"


def crew(spec: Spec) -> list[proc.Process]:
    """All processes of the run: those below this one, and those that carry its mark."""
    found = {process.pid: process for process in proc.descendants(os.getpid())}
    for process in proc.marked(layout.start_mark(spec.object, COUNT)):
        found.setdefault(process.pid, process)
    return list(found.values())


def signal_all(spec: Spec, signum: int) -> bool:
    """Signal all of the run; False if there is nothing of it."""
    found = crew(spec)
    for process in found:
        proc.send(process, signum)
    return bool(found)


def left(spec: Spec) -> bool:
    """Whether anything of the run may be there."""
    try:
        return bool(crew(spec))
    except _SCARCE:
        return True


def signalled(spec: Spec, signum: int) -> bool:
    """`signal_all` where the command has ended: what cannot be looked at now may be there."""
    try:
        return signal_all(spec, signum)
    except _SCARCE:
        return True


# --- the start ------------------------------------------------------------------------------------


def _spawn(spec: Spec, landed: Landed, *, slots: list[int]) -> tuple[int, str]:
    """Fork and execute; the process, and what was wrong if the command could not be executed."""
    folder = landed.submission
    arguments = list(spec.command) or _script_arguments(folder, spec.script)
    environment = _environment(spec, landed)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{folder}/{layout.RESULT}")  # A result is of the start that wrote it.
    output = os.open(
        f"{folder}/{layout.OUTPUT}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
    )
    workdir = spec.workdir or folder
    heard, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 127
        try:
            kept = (landed.alive, *slots)
            code = _become(workdir, arguments, environment, kept=kept, output=output, told=told)
        finally:
            os._exit(code)
    os.close(output)
    os.close(told)
    with os.fdopen(heard, "rb") as file:
        return pid, file.read().decode("utf-8", "replace")


def _become(
    workdir: str,
    arguments: list[str],
    environment: dict[str, str],
    *,
    kept: tuple[int, ...],
    output: int,
    told: int,
) -> int:
    """In the child: turn into the command. Returns only if that fails."""
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        for descriptor in kept:
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - not our signature
        os.chdir(workdir)
        _be_killed_first()
        Ear.unblock()
        os.execvpe(arguments[0], arguments, environment)  # noqa: S606 - what the job says
    except (OSError, ValueError) as error:
        why = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        if isinstance(error, FileNotFoundError) and "/" in arguments[0]:
            why = _what_is_missing(arguments[0]) or why
        what = f"cannot start {arguments[0]!r}: {why}".encode("utf-8", "replace")
        os.write(1, b"dispatch: %b\n" % what)
        os.write(told, what)
        return 127 if isinstance(error, FileNotFoundError) else 126


def _what_is_missing(path: str) -> str:
    """Of a script that is there, the interpreter: the kernel calls that "no such file", too.

    Its name is told with the carriage return that an editor may have left there.
    """
    with contextlib.suppress(OSError), open(path, "rb") as file:
        first = file.readline(256)
        if first.startswith(b"#!"):
            name = first[2:].strip(b" \n").decode("utf-8", "replace")
            return f"its interpreter {name!r} is not there"
    return ""


def _be_killed_first() -> None:
    """Where memory runs out, the kernel ends the run rather than the shim that watches it."""
    with (
        contextlib.suppress(OSError),
        open("/proc/self/oom_score_adj", "r+", encoding="ascii") as file,
    ):
        score = int(file.read())
        file.seek(0)
        file.write(str(max(score, 500)))


def _script_arguments(folder: str, script: str) -> list[str]:
    path = f"{folder}/{layout.SCRIPT}"
    return [path] if script.startswith("#!") else ["/bin/sh", path]


def _environment(spec: Spec, landed: Landed) -> dict[str, str]:
    resume = bool(os.listdir(f"{spec.run}/{layout.CHECKPOINTS}"))
    return {
        proc.MARK: layout.start_mark(spec.object, COUNT),
        **spec.environment,
        "DISPATCH_RUN_DIR": spec.run,
        "DISPATCH_RESULT": f"{landed.submission}/{layout.RESULT}",
        "DISPATCH_RESUME": "1" if resume else "0",
        "DISPATCH_GENERATION": str(spec.generation),
        "DISPATCH_SUBMISSION": str(spec.submission),
        "DISPATCH_ATTEMPT": str(spec.attempt),
    }
