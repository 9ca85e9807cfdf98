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

from tests.conftest import require_server

GET_IT = "apt-get install postgresql"
USER = "dispatch"
PASSWORD = "pass:w/rd@%"
"""With signs that a URL must escape, so that a message that repeats it is found out."""
START_SECONDS = 60
STOP_SECONDS = 20


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
    """Start a server, and stop it at the end."""
    programs = require_server("initdb", GET_IT).resolve().parent
    folder = Path(tempfile.mkdtemp(prefix="dispatch-postgres-"))
    try:
        process, port = _start(programs, folder)
        try:
            server = Postgres(port, programs, process)
            _wait(server, folder)
            yield server
        finally:
            _stop(process)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _start(programs: Path, folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    account = _account()
    password = folder / "password"
    password.write_text(PASSWORD, encoding="utf-8")
    for path in (folder, password):
        os.chown(path, account.pw_uid, account.pw_gid)
    data = folder / "data"
    initdb = [programs / "initdb", "-D", data, "-U", USER, f"--pwfile={password}"]
    initdb += ["--auth=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
    subprocess.run(initdb, check=True, capture_output=True, timeout=120, **_as(account, folder))  # type: ignore[call-overload]  # the options depend on who runs this
    port = _free_port()
    options = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",
        "fsync": "off",
        "max_connections": 100,
        "shared_buffers": "32MB",
    }
    command = [programs / "postgres", "-D", data]
    command += [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, **_as(account, folder))  # type: ignore[call-overload]  # the same
    return process, port


def _account() -> pwd.struct_passwd:
    """Whose the server is: ours, or for root somebody who may do nothing else."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    accounts = {account.pw_name: account for account in pwd.getpwall()}
    return accounts["postgres"] if "postgres" in accounts else accounts["nobody"]


def _as(account: pwd.struct_passwd, folder: Path) -> dict[str, object]:
    options: dict[str, object] = {"cwd": folder}
    if os.geteuid() == 0:
        options |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    return options


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
