"""A private Airflow for the demo: its settings, its processes, how to talk to it, how to end it.

Everything that is started leads a session of its own, by which it and all that it starts are found
again; the training, which is apart from Airflow on purpose, is found by its run folder. So what is
ended is what was started, and nothing else on this machine.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / ".demo"
RUNS = FOLDER / "runs"
AIRFLOW = Path(sys.executable).with_name("airflow")
CLUSTER = "dispatch_local_default"

UP_SECONDS_MAX = 240
STOP_SECONDS_MAX = 10
SILENT_SECONDS_MAX = 10
LOOK_SECONDS = 0.5

BEGAN = time.monotonic()
ASKED_TO_STOP = threading.Event()
Found = TypeVar("Found")


class DemoFailed(Exception):
    """The demo cannot go on; its text says why and where to look."""


class Stopped(Exception):
    """Ctrl-C or SIGTERM. It comes between two steps only, so that no process is ever mislaid."""


# --- small words ----------------------------------------------------------------------------------


def say(text: str) -> None:
    """A line of the demo, with the seconds since it began."""
    print(f"[{time.monotonic() - BEGAN:4.0f} s]   {text}", flush=True)


def until(what: str, look: Callable[[], Found | None], *, seconds: float) -> Found:
    """The first answer of `look` that is not None, within so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = look()
        if found is not None:
            return found
        if ASKED_TO_STOP.wait(LOOK_SECONDS):
            raise Stopped
    raise DemoFailed(f"not within {seconds:g} s: {what}; look into {FOLDER}")


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody listens on, each another."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


# --- processes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Process:
    """A process as /proc shows it. Pid and start time together are never used twice."""

    pid: int
    parent: int
    session: int
    started: int
    command: tuple[str, ...]

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return self in processes()

    def kill(self, number: signal.Signals) -> None:
        """Send it a signal, if it still is this very process."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def environment(self) -> dict[str, str]:
        """What it was started with; nothing where that cannot be read."""
        try:
            text = Path(f"/proc/{self.pid}/environ").read_text(errors="replace")
        except OSError:
            return {}
        return dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)


def processes() -> list[Process]:
    """Every process of this machine that is no zombie."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            state, parent, _, session, *rest = (
                (folder / "stat").read_text().rpartition(")")[2].split()
            )
            command = (folder / "cmdline").read_text(errors="replace").split("\0")
        except OSError:
            continue  # It ended meanwhile.
        if state != "Z":
            words = tuple(word for word in command if word)
            pid, started = int(folder.name), int(rest[15])
            found.append(Process(pid, int(parent), int(session), started, words))
    return found


def end_all(which: Callable[[], list[Process]]) -> list[Process]:
    """End the processes: SIGTERM, and SIGKILL for what is left; those that do not die at all."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in which():
            process.kill(number)
        end = time.monotonic() + STOP_SECONDS_MAX
        while which() and time.monotonic() < end:
            time.sleep(0.1)
    return which()


# --- Airflow --------------------------------------------------------------------------------------


@dataclass
class Airflow:
    """A private Airflow: its settings, its processes, and how to talk to it."""

    home: Path
    url: str
    environment: dict[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    sessions: set[int] = field(default_factory=set)
    token: str = ""

    @classmethod
    def made(cls) -> Airflow:
        """An Airflow in the demo's folder that takes nothing from the caller's own settings."""
        home = FOLDER / "airflow"
        home.mkdir()
        api, worker_logs, trigger_logs = free_ports(3)
        url = f"http://127.0.0.1:{api}"
        settings = {
            "CORE__DAGS_FOLDER": str(HERE),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__PARALLELISM": "2",
            "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
            "DISPATCH__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
            "DISPATCH__LEASE_SECONDS": "15",
            "DISPATCH__POLL_SECONDS": "2",
            "API__HOST": "127.0.0.1",
            "API__PORT": str(api),
            "API__BASE_URL": url,
            "API__WORKERS": "1",
            "API_AUTH__JWT_SECRET": os.urandom(64).hex(),
            "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "15",
            "LOGGING__WORKER_LOG_SERVER_PORT": str(worker_logs),
            "LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_logs),
            "USAGE_DATA_COLLECTION__ENABLED": "False",
        }
        local = {"conn_type": "dispatch_local", "extra": {"run_root": str(RUNS)}}
        kept = {name: value for name, value in os.environ.items() if "AIRFLOW" not in name}
        return cls(
            home,
            url,
            {
                **kept,
                **{f"AIRFLOW__{name}": value for name, value in settings.items()},
                f"AIRFLOW_CONN_{CLUSTER.upper()}": json.dumps(local),
                "AIRFLOW_HOME": str(home),
                "PATH": os.pathsep.join([str(AIRFLOW.parent), kept.get("PATH", os.defpath)]),
            },
        )

    def start(self) -> None:
        """Make the database, start everything, return once all of it is healthy."""
        say(f"A private Airflow in {self.home}; making its database.")
        self.commands([["db", "migrate"]])
        say("Starting `airflow standalone`; this is what takes longest.")
        self.begin("standalone")
        told: dict[str, str] = {}
        spoken = time.monotonic()

        def look() -> bool | None:
            nonlocal spoken
            self.check()
            for name, state in self._health().items():
                if told.get(name) != state:
                    told[name], spoken = state, time.monotonic()
                    say(f"  {name}: {state}")
            if time.monotonic() - spoken > SILENT_SECONDS_MAX:
                spoken = time.monotonic()
                say("  still starting")
            return True if told and set(told.values()) == {"healthy"} else None

        until("Airflow is healthy", look, seconds=UP_SECONDS_MAX)
        self.token = self.api("GET", "/auth/token")["access_token"]

    def begin(self, component: str) -> None:
        """Start a component in a session of its own, by which it is ended with all its children."""
        with (self.home / f"{component}.out").open("ab") as out:
            started = subprocess.Popen(
                [AIRFLOW, component],
                env=self.environment,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running[component] = started
        self.sessions.add(started.pid)

    def commands(self, calls: list[list[str]]) -> list[str]:
        """Calls of the command line, side by side; what each printed."""
        begun = [
            subprocess.Popen(
                [AIRFLOW, *words],
                env=self.environment,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            for words in calls
        ]
        self.sessions.update(one.pid for one in begun)
        return [_answer(one, words) for one, words in zip(begun, calls, strict=True)]

    def check(self) -> None:
        """See that what was started still runs."""
        for name, process in self.running.items():
            if process.poll() is not None:
                end = (self.home / f"{name}.out").read_text(errors="replace")[-2_000:]
                raise DemoFailed(f"`airflow {name}` ended by itself:\n{end}")

    def api(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One call of the REST API."""
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token}"}
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(  # noqa: S310 - http to our own loopback port
            self.url + path, data=data, method=method, headers=headers
        )
        with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310 - the same
            return json.load(answer)

    def _health(self) -> dict[str, str]:
        try:
            answer = self.api("GET", "/api/v2/monitor/health")
        except (OSError, ValueError):
            return {}
        return {name: str(part["status"]) for name, part in answer.items() if part["status"]}

    def members(self) -> list[Process]:
        """Everything that runs in the sessions we began."""
        return [process for process in processes() if process.session in self.sessions]

    def shims(self) -> list[Process]:
        """The run and whoever holds it: apart from Airflow on purpose, and ours all the same."""
        root = str(RUNS)
        return [
            process
            for process in processes()
            if process.environment().get("DISPATCH_RUN_DIR", "").startswith(root)
            or any(word.startswith(root) for word in process.command)
        ]

    def stop(self) -> None:
        """End everything that was started; see that it is gone."""
        standalone = self.running.get("standalone")
        if standalone is not None and standalone.poll() is None:
            standalone.send_signal(signal.SIGINT)  # So it ends its components itself.
            with contextlib.suppress(subprocess.TimeoutExpired):
                standalone.wait(STOP_SECONDS_MAX / 2)
        left = end_all(self.members) + end_all(self.shims)
        for process in self.running.values():
            process.wait(STOP_SECONDS_MAX)
        gone = "nothing that was started is left" if not left else f"still there: {left}"
        say(f"Stopped: {gone}. Its files stay in {FOLDER} until the next demo.")


def _answer(command: subprocess.Popen[str], words: list[str]) -> str:
    """What a command printed, once it has ended well."""

    def look() -> tuple[str, str] | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return command.communicate(timeout=LOOK_SECONDS)
        return None

    told, errors = until(f"airflow {' '.join(words)}", look, seconds=UP_SECONDS_MAX)
    if command.returncode:
        raise DemoFailed(f"airflow {' '.join(words)}: exit {command.returncode}\n{errors}")
    return told.rstrip()
