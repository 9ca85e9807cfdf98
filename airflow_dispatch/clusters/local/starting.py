"""Starting a shim, from the side that starts it.

The shim gets its orders through a pipe and answers through another; its environment is empty and
its command line names only its object. No answer within the bound of a call is `Unclear`: it may
have landed, or may land until the deadline that the shim itself holds. [nothing-forgotten]
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

from airflow_dispatch import limits
from airflow_dispatch.clusters.local import layout, shim
from airflow_dispatch.clusters.local import spec as message
from airflow_dispatch.clusters.local.spec import Answer, Spec
from airflow_dispatch.core.job import Job
from airflow_dispatch.core.record import Unclear
from airflow_dispatch.ports.cluster import StartOrder

_POINTER_BYTES = 8


def spec_of(order: StartOrder, *, root: str, uuid: str, slots: int) -> Spec:
    """What the shim is told."""
    job, mark = order.job, order.mark
    return Spec(
        root=root,
        uuid=uuid,
        object=mark.tag,
        deployment=mark.deployment,
        task_digest=mark.task_digest,
        generation=mark.generation,
        submission=mark.submission,
        attempt=mark.attempt,
        run=layout.run_folder(root, mark.deployment, mark.task_digest),
        deadline=order.deadline.timestamp(),
        slots=slots,
        cpus=job.resources.cpus,
        memory_bytes=job.resources.memory_bytes,
        time_limit=job.time_limit_seconds,
        grace=job.grace_seconds,
        command=list(job.command),
        script=job.script,
        workdir=job.workdir,
        environment={**_base_environment(), **dict(job.env)},
    )


def too_long(job: Job) -> str:
    """What of command and environment no process of this host can be given; empty if all can."""
    page = os.sysconf("SC_PAGE_SIZE")
    longest, most = 32 * page, os.sysconf("SC_ARG_MAX") - page
    pieces = [("an argument of the command", argument) for argument in job.command]
    pieces += [(f"env {name}", f"{name}={value}") for name, value in job.env]
    total = 0
    for what, text in pieces:
        size = len(text.encode()) + 1
        total += size + _POINTER_BYTES
        if size > longest:
            return f"{what} is {size} bytes; a process of this host takes {longest} at most"
    if total > most:
        return f"command and env are {total} bytes; a process of this host takes {most} at most"
    return ""


def _base_environment() -> dict[str, str]:
    """The little that a run inherits of its supervisor's environment."""
    user = pwd.getpwuid(os.geteuid())
    defaults = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": user.pw_dir,
        "USER": user.pw_name,
        "LOGNAME": user.pw_name,
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",  # noqa: S108 - the place itself, no file in it
    }
    return {name: os.environ.get(name) or default for name, default in defaults.items()}


def start(spec: Spec) -> Answer | Unclear:
    """Start the shim and hear what it says. Blocks for at most the bound of a call."""
    program = str(Path(shim.__file__).resolve())
    # A Python that was built with shared libraries in a place of its own does not start without.
    environment = {k: v for k, v in os.environ.items() if k == "LD_LIBRARY_PATH"}
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", program, spec.object],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        return message.refused("no process can be started for it", error)
    with process:
        try:
            told, complaints = process.communicate(
                message.encode(spec), timeout=limits.LOCAL_CALL_BOUND_SECONDS
            )
        except subprocess.TimeoutExpired:
            process.kill()
            return Unclear("its shim has not answered yet; it may still land")
    answer = message.decode_answer(told)
    if answer is None:
        said = complaints.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return Unclear(f"its shim ended without an answer: {said or 'it said nothing'}")
    return answer
