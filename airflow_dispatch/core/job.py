"""The portable description of one training run: what a DAG author asked for, checked, immutable.

It stands once, in the first commit of its record. A field that an adapter cannot honour is refused
by name before a record exists (`Cluster.refusals`), never ignored. Every check here has a message
that a DAG author can act on, and runs without Airflow, so that it can run while a DAG file is
parsed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from airflow_dispatch import limits
from airflow_dispatch.errors import InvalidJob

ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
RESERVED_ENV_PREFIX = "DISPATCH_"


class Unmatched(str, Enum):
    """Who closes an attempt of which neither a reply nor an object is known."""

    AUTO = "auto"
    """Once its call can no longer land and a later Find showed nothing, it counts as never
    landed."""
    MANUAL = "manual"
    """A person disposes of it."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What one run needs.

    CPUs are per task, memory is per node; None leaves it to the cluster's default.
    """

    nodes: int = 1
    tasks_per_node: int = 1
    cpus_per_task: int = 1
    memory_bytes: int | None = None
    gpus_per_node: int = 0
    gpu_type: str = ""

    def __post_init__(self) -> None:
        _within("nodes", self.nodes, 1, limits.NODES_MAX)
        _within("tasks_per_node", self.tasks_per_node, 1, limits.TASKS_PER_NODE_MAX)
        _within("cpus", self.cpus_per_task, 1, limits.CPUS_PER_TASK_MAX)
        _within("gpus", self.gpus_per_node, 0, limits.GPUS_PER_NODE_MAX)
        if self.memory_bytes is not None:
            _within(
                "memory in bytes",
                self.memory_bytes,
                limits.MEMORY_BYTES_MIN,
                limits.MEMORY_BYTES_MAX,
            )
        if self.gpu_type and not self.gpus_per_node:
            raise InvalidJob(f"gpu_type={self.gpu_type!r} without gpus: say how many, as gpus=1")

    @property
    def cpus(self) -> int:
        """CPUs of the whole run."""
        return self.nodes * self.tasks_per_node * self.cpus_per_task


@dataclass(frozen=True, slots=True)
class Placement:
    """The scheduler's own words for where and on whose account a run goes; empty: its default."""

    account: str = ""
    partition: str = ""
    qos: str = ""
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One training run. Exactly one of `command` and `script` is set.

    Durations are in whole seconds. `env` is a tuple of (name, value), sorted by name, without
    secrets. `options` are passed through to one adapter as they are.
    """

    cluster: str
    """The Airflow connection id of the scheduler."""
    time_limit_seconds: int
    """Longest time from the start of the command to its end; the scheduler enforces it even without
    us."""
    command: tuple[str, ...] = ()
    script: str = ""
    workdir: str = ""
    env: tuple[tuple[str, str], ...] = ()
    resources: Resources = field(default_factory=Resources)
    placement: Placement = field(default_factory=Placement)
    image: str = ""
    mounts: tuple[str, ...] = ()
    start_within_seconds: int | None = None
    grace_seconds: int = 30
    """From the warning signal of a stop to the kill."""
    unmatched: Unmatched = Unmatched.AUTO
    options: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not self.cluster:
            raise InvalidJob("cluster is empty; name the Airflow connection of the scheduler")
        if bool(self.command) == bool(self.script):
            raise InvalidJob("give either a command or a script, not both and not neither")
        _check_command(self.command)
        _check_script(self.script)
        _check_env(self.env)
        _no_nul("workdir", self.workdir)
        _encoded("workdir", self.workdir)
        _within("time_limit in seconds", self.time_limit_seconds, 1, limits.DURATION_SECONDS_MAX)
        _within("grace in seconds", self.grace_seconds, 0, limits.GRACE_SECONDS_MAX)
        if self.start_within_seconds is not None:
            _within(
                "start_within in seconds", self.start_within_seconds, 1, limits.DURATION_SECONDS_MAX
            )


def _within(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidJob(f"{name}={value!r} must be a whole number from {least} to {most}")


def _no_nul(name: str, text: str) -> None:
    if "\0" in text:
        raise InvalidJob(f"{name} contains a NUL character, which no process can be given")


def _check_command(command: tuple[str, ...]) -> None:
    if len(command) > limits.COMMAND_ARGUMENTS_MAX:
        raise InvalidJob(
            f"the command has {len(command)} arguments; "
            f"at most {limits.COMMAND_ARGUMENTS_MAX} are allowed"
        )
    if command and not command[0]:
        raise InvalidJob("the first word of the command is empty; it names the program")
    for argument in command:
        _no_nul("the command", argument)
    if (
        sum(len(_encoded("the command", argument)) + 1 for argument in command)
        > limits.COMMAND_BYTES_MAX
    ):
        raise InvalidJob("the command is larger than 1 MiB; put it into a script or a file")


def _check_script(script: str) -> None:
    _no_nul("the script", script)
    size = len(_encoded("the script", script))
    if size > limits.SCRIPT_BYTES_MAX:
        raise InvalidJob(
            f"the script is {size} bytes; at most 1 MiB is kept in a record, "
            "so install it where it runs"
        )


def _check_env(env: tuple[tuple[str, str], ...]) -> None:
    if len(env) > limits.ENV_ENTRIES_MAX:
        raise InvalidJob(
            f"env has {len(env)} entries; at most {limits.ENV_ENTRIES_MAX} are allowed"
        )
    names = [name for name, _ in env]
    if names != sorted(set(names)):
        raise InvalidJob("env must name each variable once, in order of name")
    for name, value in env:
        if not ENV_NAME.fullmatch(name):
            raise InvalidJob(
                f"env name {name!r} is none that a shell accepts; "
                "use letters, digits and _ (no digit first)"
            )
        if name.startswith(RESERVED_ENV_PREFIX):
            raise InvalidJob(
                f"env name {name!r}: names that start with {RESERVED_ENV_PREFIX} "
                "are set by dispatch"
            )
        _no_nul(f"env {name}", value)
        if len(_encoded(f"env {name}", value)) > limits.ENV_VALUE_BYTES_MAX:
            raise InvalidJob(
                f"env {name} is larger than 128 KiB, more than Linux lets one variable be"
            )


def _encoded(name: str, text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidJob(
            f"{name} contains {text[error.start]!r}, which is not valid Unicode text"
        ) from error
