"""A real PostgreSQL for one test session: in a folder of its own, on a free loopback port.

It runs as an unprivileged user when the tests run as root, because PostgreSQL refuses root. It is
stopped by whoever started it, by its process id, within a bound; its folder goes with it.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from tests.conftest import require_server

GET_IT = "apt-get install postgresql"
USER = "dispatch"
PASSWORD = "pass:w/rd@%"
"""With signs that a URL must escape, so that a message that repeats it is found out."""
START_SECONDS = 60
STOP_SECONDS = 20


Command = list[str | Path]


class Account(TypedDict, total=False):
    """How `subprocess` is told whom to run a program as."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True)
class Postgres:
    """A running server."""

    port: int
    bin: Path
    process: subprocess.Popen[bytes]

    def url(self, database: str = "postgres", *, port: int | None = None) -> str:
        """The URL of a database, as Airflow's configuration has it."""
        password = "".join(f"%{ord(c):02x}" for c in PASSWORD)
        return f"postgresql+psycopg2://{USER}:{password}@127.0.0.1:{port or self.port}/{database}"

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Run a statement with the server's own client, and return what it prints."""
        command = [str(self.bin / "psql"), "-qAt", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1"]
        command += ["-p", str(self.port), "-U", USER, "-d", database, "-c", statement]
        environment = {**os.environ, "PGPASSWORD": PASSWORD, "PGCONNECT_TIMEOUT": "10"}
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment, timeout=30
        )
        return done.stdout.strip()


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Start a server of its own, and stop it at the end."""
    programs = require_server("initdb", GET_IT).resolve().parent
    with _folder() as folder:
        password = folder / "password"
        password.write_text(PASSWORD, encoding="utf-8")
        shutil.chown(password, _account().pw_uid, _account().pw_gid)
        initdb: Command = [
            programs / "initdb",
            "-D",
            folder / "data",
            "-U",
            USER,
            f"--pwfile={password}",
        ]
        initdb += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        _run(initdb, folder)
        with _serving(programs, folder) as server:
            yield server


@contextmanager
def running_standby(primary: Postgres) -> Iterator[Postgres]:
    """Start a server that follows another one and answers from what it has received so far."""
    with _folder() as folder:
        copy: Command = [primary.bin / "pg_basebackup", "-D", folder / "data", "-R", "-c", "fast"]
        copy += ["--no-sync", "-h", "127.0.0.1", "-p", str(primary.port), "-U", USER]
        _run(copy, folder, PGPASSWORD=PASSWORD)
        with _serving(primary.bin, folder) as server:
            yield server


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder that belongs to whoever the server runs as."""
    folder = Path(tempfile.mkdtemp(prefix="dispatch-postgres-"))
    try:
        shutil.chown(folder, _account().pw_uid, _account().pw_gid)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _serving(programs: Path, folder: Path) -> Iterator[Postgres]:
    port = _free_port()
    options = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",
        "fsync": "off",
        "max_connections": 100,
        "shared_buffers": "32MB",
    }
    command: Command = [programs / "postgres", "-D", folder / "data"]
    command += [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **_account_of())
    try:
        server = Postgres(port, programs, process)
        _wait(server, folder)
        yield server
    finally:
        _stop(process)


def _run(command: Command, folder: Path, **environment: str) -> None:
    env = {**os.environ, **environment}
    done = subprocess.run(
        command, cwd=folder, env=env, check=False, capture_output=True, timeout=120, **_account_of()
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")


def _account() -> pwd.struct_passwd:
    """Whose the server is: ours, or for root somebody who may do nothing else."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    accounts = {account.pw_name: account for account in pwd.getpwall()}
    return accounts["postgres"] if "postgres" in accounts else accounts["nobody"]


def _account_of() -> Account:
    if os.geteuid() != 0:
        return {}
    account = _account()
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(server: Postgres, folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    ready = [str(server.bin / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(server.port)]
    while subprocess.run(ready, check=False, timeout=10).returncode != 0:
        if server.process.poll() is not None or time.monotonic() > deadline:
            log = (folder / "log").read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"PostgreSQL did not start:\n{log[-4000:]}")
        time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask for a fast shutdown, then for an immediate one, then kill."""
    for wish in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        process.send_signal(wish)
        try:
            process.wait(timeout=STOP_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue
