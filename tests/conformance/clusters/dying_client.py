"""Starts objects in children that kill themselves at their first, second, ... line of doing so.

Arguments: the run root, the run id of the task, and a file that gets the tags that were tried. The
lines are those of the package and every fourth of the standard library's `subprocess`, from the
first of the latter on: before it nothing is outside yet. The last child lives to the end.
"""

import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import FrameType
from typing import Any

from airflow_dispatch.clusters.local import calls
from airflow_dispatch.clusters.local import root as roots
from airflow_dispatch.core.identity import JobKey, Mark, TaskKey
from airflow_dispatch.core.job import Job
from airflow_dispatch.ports.cluster import StartOrder

PACKAGE = str(Path(calls.__file__).parent)


def start(root: roots.Root, run_id: str, tag: str) -> None:
    """One start, as a supervisor makes it."""
    task = TaskKey("conformance", "dag", run_id, "task")
    mark = Mark("conformance", task.digest, 1, 1, 1, tag)
    job = Job(cluster="local", time_limit_seconds=60, script="exit 0\n")
    deadline = datetime.now(timezone.utc) + timedelta(seconds=30)
    order = StartOrder(JobKey(task, 1), job, mark, root.fingerprint, deadline)
    calls.start(calls.verified(root.path, root.fingerprint), order, slots=4)


def die_at(line: int) -> None:
    """Kill this process at that line from now on."""
    left, begun = line, False

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left, begun
        if not frame.f_code.co_filename.startswith((PACKAGE, subprocess.__file__)):
            return None
        library = frame.f_code.co_filename == subprocess.__file__
        begun = begun or library
        counts = event == "line" and begun and not (library and frame.f_lineno % 4)
        left -= counts
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def main() -> None:
    """One child after the other."""
    path, run_id, tags = sys.argv[1:]
    root = roots.read(path)
    for line in range(10_000):
        tag = f"line-{line}-{os.urandom(4).hex()}"
        with Path(tags).open("a") as file:
            file.write(f"{tag}\n")
        child = os.fork()
        if child == 0:
            die_at(line)
            start(root, run_id, tag)
            sys.settrace(None)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            return
    raise SystemExit("a start has no end")


main()
