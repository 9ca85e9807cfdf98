"""`make demo`: a private Airflow on this machine trains the digits example while you watch.

It makes an Airflow home of its own in `.demo/`, on SQLite and free loopback ports, starts `airflow
standalone`, triggers `digits_dag.py`, and tells the story of the task's log until the task is done.
Then it prints the job's record, its history and the model's accuracy.

With `--chaos` it kills the triggerer in the middle of the training (`kill -9`), starts another one,
and proves from the process table and the record that the very same run went on.

Nothing that it started is left when it ends, be it by itself, by Ctrl-C or by SIGTERM; `.demo/` is
kept until the next demo, so that its logs can be read. It needs nothing but Airflow and Python.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import shutil
import signal
import sys
import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dags_examples.demo_airflow import (
    ASKED_TO_STOP,
    FOLDER,
    LOOK_SECONDS,
    RUNS,
    STOP_SECONDS_MAX,
    Airflow,
    DemoFailed,
    Process,
    Stopped,
    processes,
    say,
    until,
)

TRAINING = Path(__file__).resolve().parent / "digits" / "train.py"
DAG, TASK = "digits", "train"

EPOCHS = 20
SECONDS_PER_EPOCH = 1.0
SECONDS_PER_EPOCH_IN_CHAOS = 5.0
EPOCHS_BEFORE_CHAOS = 8
"""The epochs after it have to last until another triggerer is up and has adopted the run."""

DAG_SECONDS_MAX = 60
RUN_SECONDS_MAX = 300


def main() -> int:
    """Run the demo; the exit code."""
    options = _parsed()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ASKED_TO_STOP.set())
    with _only_demo():
        airflow = Airflow.made()
        try:
            _demo(airflow, chaos=options.chaos)
            _stay(airflow, options)
        except Stopped:
            say("Stopping, as asked.")
            return 130
        except DemoFailed as failed:
            say(f"The demo failed: {failed}")
            return 1
        finally:
            airflow.stop()
    return 0


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the digits example under a private Airflow")
    parser.add_argument("--chaos", action="store_true", help="kill the triggerer half way")
    parser.add_argument(
        "--stay", action="store_true", help="keep Airflow up until Ctrl-C, also without a terminal"
    )
    parser.add_argument("--leave", action="store_true", help="end at once when the task is done")
    return parser.parse_args()


def _demo(airflow: Airflow, *, chaos: bool) -> None:
    """The story in its order."""
    airflow.start()
    run = _triggered(airflow, SECONDS_PER_EPOCH_IN_CHAOS if chaos else SECONDS_PER_EPOCH)
    say(f"DAG run {run.id}: {run.address}")
    mischief = Mischief(airflow) if chaos else None
    state = _followed(airflow, run, mischief)
    record = _on_record(airflow, run)
    if state != "success":
        raise DemoFailed(f"the task ended as {state}; its log is in {airflow.home / 'logs'}")
    if mischief is not None:
        mischief.prove(record, run)
    say(f"Accuracy of the model: {run.accuracy(airflow):.4f}")
    say(f"Where to look: {run.address} while Airflow is up,")
    say(f"  its task's log in {airflow.home / 'logs'}, the run's folder in {RUNS}.")


def _triggered(airflow: Airflow, seconds_per_epoch: float) -> Run:
    """Unpause the DAG and trigger it."""
    say("Waiting for the DAG to be parsed.")

    def known() -> Any | None:
        airflow.check()
        with contextlib.suppress(urllib.error.HTTPError):
            return airflow.api("GET", f"/api/v2/dags/{DAG}")
        return None

    until(f"the DAG {DAG} is known", known, seconds=DAG_SECONDS_MAX)
    airflow.api("PATCH", f"/api/v2/dags/{DAG}", {"is_paused": False})
    conf = {"epochs": EPOCHS, "seconds_per_epoch": seconds_per_epoch}
    body = {"logical_date": None, "conf": conf}
    made = airflow.api("POST", f"/api/v2/dags/{DAG}/dagRuns", body)
    return Run(made["dag_run_id"], airflow.url)


def _followed(airflow: Airflow, run: Run, mischief: Mischief | None) -> str:
    """Tell the task's log as it grows until the task has ended; its final state."""
    log = Log(airflow.home / "logs")

    def look() -> str | None:
        airflow.check()
        for line in log.new():
            print(f"           | {line}", flush=True)
            run.note(line)
            if mischief is not None:
                mischief.heed(line)
        if mischief is not None and not mischief.done and run.epochs >= EPOCHS_BEFORE_CHAOS:
            mischief.kill_the_triggerer()
        state = run.state(airflow)
        return state if state in ("success", "failed", "upstream_failed", "skipped") else None

    state = until("the task ended", look, seconds=RUN_SECONDS_MAX)
    say(f"The task is done: {state}.")
    return state


def _on_record(airflow: Airflow, run: Run) -> dict[str, Any]:
    """Print record and history as the command line shows them; the record as JSON."""
    say("What is on record (airflow dispatch show, history):")
    key = [DAG, TASK, run.id]
    asked = [["show", *key, "-o", "json"], ["show", *key], ["history", *key]]
    document, table, history = airflow.commands([["dispatch", *words] for words in asked])
    print(f"\n{table}\n\n{history}\n", flush=True)
    record: dict[str, Any] = json.loads(document)
    return record


def _stay(airflow: Airflow, options: argparse.Namespace) -> None:
    """Leave Airflow up for whoever sits at the terminal."""
    if options.leave or not (options.stay or sys.stdin.isatty()):
        say("Stopping Airflow (it stays up until Ctrl-C at a terminal, or with --stay).")
        return
    say(f"Airflow stays up at {airflow.url} until Ctrl-C.")
    while not ASKED_TO_STOP.wait(LOOK_SECONDS):
        airflow.check()


@contextlib.contextmanager
def _only_demo() -> Iterator[None]:
    """Empty the demo's folder; refuse while another demo uses it."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit(f"Another demo is running in {FOLDER}: stop it first.") from None
        left = [process.pid for process in processes() if _is_of_a_demo(process)]
        if left:
            raise SystemExit(f"A demo was killed and left these processes behind: {left}.")
        for path in FOLDER.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "lock":
                path.unlink()
        yield


def _is_of_a_demo(process: Process) -> bool:
    """Whether it is part of a demo's Airflow, or of what that launched."""
    environment = process.environment()
    places = (environment.get("AIRFLOW_HOME", ""), environment.get("DISPATCH_RUN_DIR", ""))
    return any(word.startswith(f"{FOLDER}/") for word in (*places, *process.command))


# --- the run --------------------------------------------------------------------------------------


@dataclass
class Run:
    """The DAG run, and how far its training has come by the log."""

    id: str
    url: str
    epochs: int = 0

    @property
    def address(self) -> str:
        """Where to look."""
        return f"{self.url}/dags/{DAG}/runs/{self.id}/tasks/{TASK}"

    @property
    def path(self) -> str:
        """The task instance in the REST API."""
        return f"/api/v2/dags/{DAG}/dagRuns/{self.id}/taskInstances/{TASK}"

    def state(self, airflow: Airflow) -> str:
        """The task instance's state."""
        return str(airflow.api("GET", self.path)["state"])

    def accuracy(self, airflow: Airflow) -> float:
        """What the training handed on."""
        value = airflow.api("GET", f"{self.path}/xcomEntries/return_value")["value"]
        outcome = json.loads(value) if isinstance(value, str) else value
        return float(outcome["result"]["accuracy"])

    def note(self, line: str) -> None:
        """Count the epochs that the training tells of."""
        words = line.split()
        if len(words) > 1 and words[0] == "epoch":
            self.epochs = int(words[1].partition("/")[0])


@dataclass
class Log:
    """The log files of the task: its worker's, and that of each trigger, as they grow."""

    folder: Path
    read: dict[Path, int] = field(default_factory=dict)

    def new(self) -> Iterator[str]:
        """What was written since the last time, in whole lines."""
        for path in sorted(self.folder.rglob("attempt=*.log*")):
            with path.open("rb") as file:
                file.seek(self.read.get(path, 0))
                whole, _, _ = file.read().rpartition(b"\n")
            if whole:
                self.read[path] = self.read.get(path, 0) + len(whole) + 1
                yield from filter(None, map(self._told, whole.decode(errors="replace").split("\n")))

    def _told(self, line: str) -> str:
        """The words of a line that belongs to the story of the run; empty for Airflow's own."""
        try:
            entry = json.loads(line)
        except ValueError:
            return ""
        ours = str(entry.get("logger", "")).startswith("airflow_dispatch")
        return str(entry.get("event", "")) if ours else ""


# --- chaos ----------------------------------------------------------------------------------------


@dataclass
class Mischief:
    """Kills the triggerer while the training runs, and proves that the training did not notice."""

    airflow: Airflow
    training: Process | None = None
    adopted: bool = False
    killed: list[Process] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether it has killed."""
        return bool(self.killed)

    def kill_the_triggerer(self) -> None:
        """`kill -9` the triggerer with all of its children, and start another one."""
        self.training = self._training()
        say(f"CHAOS: the training runs as process {self.training.pid}.")
        self.killed = self._triggerer()
        for process in self.killed:
            process.kill(signal.SIGKILL)
        until("the triggerer is dead", lambda: self._dead() or None, seconds=STOP_SECONDS_MAX)
        pids = ", ".join(str(process.pid) for process in self.killed)
        say(f"CHAOS: killed the triggerer with kill -9 (processes {pids}); starting another one.")
        if not self.training.alive():
            raise DemoFailed("the training died together with the triggerer")
        say(f"PROOF: process {self.training.pid} is alive: the training goes on without anybody.")
        self.airflow.begin("triggerer")

    def heed(self, line: str) -> None:
        """See that the training still is the same process when the new triggerer has it."""
        if self.training is None or "Took over" not in line:
            return
        if not self.training.alive():
            raise DemoFailed("the training had ended before another triggerer was up to adopt it")
        self.adopted = True
        say(
            f"PROOF: process {self.training.pid} is alive: another triggerer adopted this very run."
        )

    def prove(self, record: dict[str, Any], run: Run) -> None:
        """Fail unless one object, started once by one process, trained each epoch once."""
        training = self.training
        if training is None or not self.killed:
            raise DemoFailed("the training ended before the triggerer could be killed")
        objects = record["objects"]
        output = Path(objects[0]["output"]).read_text()
        told = [line.split()[1] for line in output.splitlines() if line.startswith("epoch ")]
        facts = {
            "adopted by another triggerer": self.adopted,
            "one object on record": len(objects) == 1,
            "one submission, one attempt": [len(one["attempts"]) for one in record["submissions"]]
            == [1],
            "one start of it": len(objects[0]["starts"]) == 1,
            "each epoch trained once, in order": told
            == [f"{n}/{EPOCHS}" for n in range(1, EPOCHS + 1)],
            "the outcome is success": record["outcome"]["state"] == "succeeded",
        }
        for fact, holds in facts.items():
            say(f"PROOF: {fact}: {'yes' if holds else 'NO'}")
        say(f"PROOF: object {objects[0]['id']}, all the time process {training.pid}.")
        if not all(facts.values()):
            raise DemoFailed(f"the run {run.id} did not go on as it was")

    def _training(self) -> Process:
        """The one process that trains, by its command line and its run folder."""
        found = [
            process
            for process in self.airflow.shims()
            if str(TRAINING) in process.command and process.command[0] == sys.executable
        ]
        if len(found) != 1:
            raise DemoFailed(f"one training should run, and {len(found)} do: {found}")
        return found[0]

    def _triggerer(self) -> list[Process]:
        """The triggerer and its children in the session of `airflow standalone`."""
        members = self.airflow.members()
        pids = {p.pid for p in members if p.command[-1:] == ("triggerer",)}
        return [p for p in members if p.pid in pids or p.parent in pids]

    def _dead(self) -> bool:
        return not any(process.alive() for process in self.killed)


if __name__ == "__main__":
    sys.exit(main())
