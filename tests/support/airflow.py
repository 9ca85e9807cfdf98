"""A real Airflow for tests: its components as processes of ours, on loopback.

Ended by their process group.

Components are started singly (API server, scheduler, DAG processor, triggerer), so that a test can
kill one of them and start it again. Everything lives in one folder; nothing of the caller's own
Airflow configuration is inherited.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx

T = TypeVar("T")

FERNET_KEY = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
POLL_SECONDS = 0.2


def free_port() -> int:
    """A loopback port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(what: str, look: Callable[[], T | None], *, seconds: float) -> T:
    """The first answer of `look` that is true; fails with `what` after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(POLL_SECONDS)


@dataclass
class AirflowBed:
    """One Airflow installation with its processes.

    `database` is a SQLAlchemy URL as Airflow takes it.
    """

    home: Path
    dags: Path
    database: str
    port: int = field(default_factory=free_port)
    extra: dict[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    token: str = ""

    @property
    def url(self) -> str:
        """Where the API server answers."""
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        """The environment of every component: only ours, no AIRFLOW variable of the caller."""
        kept = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("AIRFLOW", "DISPATCH", "_AIRFLOW"))
        }
        local = {
            "conn_type": "dispatch_local",
            "extra": {"run_root": str(self.home / "runs"), "slots": 8},
        }
        settings = {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PARALLELISM": "3",
            "AIRFLOW__CORE__FERNET_KEY": FERNET_KEY,
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__API_AUTH__JWT_SECRET": "only-for-tests-on-loopback-0123456789abcdef",
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__HOST": "127.0.0.1",
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": self.database,
            "AIRFLOW__DISPATCH__SQL_ALCHEMY_CONN": self.database,
            "AIRFLOW__DISPATCH__POLL_SECONDS": "2",
            "AIRFLOW__DISPATCH__LEASE_SECONDS": "30",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
            "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
            "AIRFLOW_CONN_DISPATCH_LOCAL_DEFAULT": json.dumps(local),
            "AIRFLOW_CONN_NOT_DISPATCH": json.dumps({"conn_type": "http", "host": "127.0.0.1"}),
            "PATH": os.pathsep.join(
                [str(Path(sys.executable).parent), kept.get("PATH", os.defpath)]
            ),
        }
        return {**kept, **settings, **self.extra}

    def command(
        self, *words: str, check: bool = True, timeout: float = 180
    ) -> subprocess.CompletedProcess[str]:
        """One call of the `airflow` command line."""
        done = subprocess.run(
            [str(Path(sys.executable).with_name("airflow")), *words],
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(
                f"airflow {' '.join(words)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return done

    def start(self, component: str, *words: str) -> None:
        """Start a component in a process group of its own.

        Its output goes to a file in the home folder.
        """
        with (self.home / f"{component}.out").open("ab") as out:
            self.processes[component] = subprocess.Popen(
                [str(Path(sys.executable).with_name("airflow")), *(words or (component,))],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.home,
            )

    def kill(self, component: str, with_signal: int = signal.SIGKILL) -> None:
        """End a component and all that it forked, which is our own process group."""
        process = self.processes.pop(component)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, with_signal)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=30)

    def up(self) -> None:
        """Make the database and start all components; returns when the API server answers."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.command("db", "migrate", timeout=300)
        self.start("api-server")
        for component in ("scheduler", "dag-processor", "triggerer"):
            self.start(component)
        until("the API server answers", self._answers, seconds=240)

    def down(self) -> None:
        """End everything that was started."""
        for component in list(self.processes):
            self.kill(component, signal.SIGTERM)

    def output(self, component: str) -> str:
        """What a component printed so far."""
        return (self.home / f"{component}.out").read_text(errors="replace")

    def _answers(self) -> bool:
        dead = [name for name, process in self.processes.items() if process.poll() is not None]
        if dead:
            raise AssertionError(f"{dead[0]} ended:\n{self.output(dead[0])[-4000:]}")
        try:
            answer = httpx.get(f"{self.url}/auth/token", timeout=5)
        except httpx.HTTPError:
            return False
        if answer.status_code not in (200, 201):
            return False
        self.token = answer.json()["access_token"]
        return True

    def api(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One call of the public REST API; fails on an error status."""
        answer = httpx.request(
            method,
            f"{self.url}/api/v2{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=60,
        )
        if answer.status_code >= 400:
            raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text[:2000]}")
        return answer.json() if answer.content else None

    # --- what people do in the UI ----------------------------------------------------------------

    def unpause(self, dag_id: str) -> None:
        """Wait until the DAG is known, and unpause it."""

        def known() -> bool:
            dags = self.api("GET", "/dags?limit=200&exclude_stale=false")["dags"]
            return any(dag["dag_id"] == dag_id for dag in dags)

        until(f"DAG {dag_id} is known", known, seconds=120)
        self.api("PATCH", f"/dags/{dag_id}", {"is_paused": False})

    def trigger(self, dag_id: str, conf: dict[str, Any] | None = None) -> str:
        """Trigger a DAG run; returns its run_id."""
        run_id = f"test-{secrets.token_hex(4)}"
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf or {}}
        self.api("POST", f"/dags/{dag_id}/dagRuns", body)
        return run_id

    def task(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> dict[str, Any]:
        """The task instance as the API shows it."""
        tail = f"/{map_index}" if map_index >= 0 else ""
        found: dict[str, Any] = self.api(
            "GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}{tail}"
        )
        return found

    def ends(self, dag_id: str, run_id: str, task_id: str, state: str, *, seconds: float) -> None:
        """Wait until the task instance is in the state; a failure shows its log."""

        def reached() -> bool:
            return bool(self.task(dag_id, run_id, task_id)["state"] == state)

        try:
            until(f"{dag_id}.{task_id} is {state}", reached, seconds=seconds)
        except AssertionError as error:
            found = self.task(dag_id, run_id, task_id)
            log = self.log(dag_id, run_id, task_id, max(found["try_number"], 1))
            raise AssertionError(f"{error}, but {found['state']}:\n{log[-6000:]}") from error

    def mark_task(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Mark a task instance as `success` or `failed`."""
        self.api(
            "PATCH",
            f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}",
            {"new_state": state},
        )

    def mark_run(self, dag_id: str, run_id: str, state: str) -> None:
        """Mark a DAG run as `success` or `failed`."""
        self.api("PATCH", f"/dags/{dag_id}/dagRuns/{run_id}", {"state": state})

    def clear(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Clear one task instance."""
        body = {"dry_run": False, "dag_run_id": run_id, "task_ids": [task_id], "only_failed": False}
        self.api("POST", f"/dags/{dag_id}/clearTaskInstances", body)

    def xcom(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """The task's returned value."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        value = self.api("GET", path)["value"]
        return json.loads(value) if isinstance(value, str) else value

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int) -> str:
        """The task's log of one try as the UI gets it, as text."""
        instance = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}"
        path = f"{instance}/logs/{try_number}?full_content=true"
        content = self.api("GET", path)["content"]
        return "\n".join(
            line if isinstance(line, str) else str(line.get("event", line)) for line in content
        )

    def show(self, dag_id: str, run_id: str, task_id: str, *words: str) -> Any:
        """`airflow dispatch show -o json` of the task's newest record."""
        done = self.command("dispatch", "show", dag_id, task_id, run_id, *words, "-o", "json")
        return json.loads(done.stdout)
