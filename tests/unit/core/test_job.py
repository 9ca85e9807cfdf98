"""The job description: what cannot be launched is refused, by one sentence that helps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_dispatch import limits
from airflow_dispatch.core.job import Job, Resources
from airflow_dispatch.errors import InvalidJob
from tests.unit.core.building import JOB

SURROGATE = "caf\udce9"
"""Bytes that are not UTF-8, as Python reads them from a command line."""


def test_a_plain_job_is_accepted() -> None:
    """Defaults are one task on one node, stopped gracefully."""
    assert JOB.resources.cpus == 1
    assert JOB.grace_seconds == 10
    assert replace(JOB, command=(), script="#!/bin/sh\ntrue\n").script


def test_cpus_are_those_of_the_whole_run() -> None:
    """Nodes times tasks per node times CPUs per task."""
    assert Resources(nodes=2, tasks_per_node=3, cpus_per_task=4).cpus == 24


def test_limits_themselves_are_allowed() -> None:
    """The largest job that the limits speak of can be written down."""
    Job(
        cluster="c",
        time_limit_seconds=limits.DURATION_SECONDS_MAX,
        script="x" * limits.SCRIPT_BYTES_MAX,
        env=tuple((f"V{number:04}", "x") for number in range(limits.ENV_ENTRIES_MAX)),
        grace_seconds=limits.GRACE_SECONDS_MAX,
        start_within_seconds=1,
    )
    Job(
        cluster="c",
        time_limit_seconds=1,
        command=("true", *["x"] * (limits.COMMAND_ARGUMENTS_MAX - 1)),
        env=(("A", "é" * (limits.ENV_VALUE_BYTES_MAX // 2)),),
        grace_seconds=0,
    )


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"cluster": ""}, "cluster is empty"),
    ({"command": ()}, "either a command or a script"),
    ({"script": "true"}, "either a command or a script"),
    ({"command": ("", "x")}, "first word of the command is empty"),
    ({"command": ("x",) * (limits.COMMAND_ARGUMENTS_MAX + 1)}, "10001 arguments; at most 10000"),
    ({"command": ("x", "y" * limits.COMMAND_BYTES_MAX)}, "command is larger than 1 MiB"),
    ({"command": ("x", "a\0b")}, "the command contains a NUL"),
    ({"command": ("x", SURROGATE)}, "the command contains '.udce9', which is not valid Unicode"),
    ({"command": (), "script": "a\0b"}, "the script contains a NUL"),
    ({"command": (), "script": SURROGATE}, "the script contains"),
    (
        {"command": (), "script": "x" * (limits.SCRIPT_BYTES_MAX + 1)},
        "1048577 bytes; at most 1 MiB",
    ),
    ({"workdir": "/a\0b"}, "workdir contains a NUL"),
    ({"workdir": SURROGATE}, "workdir contains '.udce9'"),
    ({"env": tuple((f"V{n:04}", "") for n in range(1001))}, "env has 1001 entries; at most 1000"),
    ({"env": (("B", ""), ("A", ""))}, "each variable once, in order"),
    ({"env": (("A", ""), ("A", ""))}, "each variable once, in order"),
    ({"env": (("1A", ""),)}, "env name '1A' is none that a shell accepts"),
    ({"env": (("A-B", ""),)}, "env name 'A-B' is none"),
    ({"env": (("Ä", ""),)}, "env name 'Ä' is none"),
    ({"env": (("A\n", ""),)}, "env name 'A.n' is none"),
    ({"env": (("", ""),)}, "env name '' is none"),
    ({"env": (("DISPATCH_RUN_DIR", ""),)}, "start with DISPATCH_ are set by dispatch"),
    ({"env": (("A", "x\0"),)}, "env A contains a NUL"),
    ({"env": (("A", SURROGATE),)}, "env A contains"),
    ({"env": (("A", "x" * (limits.ENV_VALUE_BYTES_MAX + 1)),)}, "env A is larger than 128 KiB"),
    ({"time_limit_seconds": 0}, "time_limit in seconds=0 must be a whole number from 1"),
    ({"time_limit_seconds": True}, "time_limit in seconds=True must be"),
    ({"time_limit_seconds": 1.5}, "time_limit in seconds=1.5 must be"),
    ({"time_limit_seconds": limits.DURATION_SECONDS_MAX + 1}, "time_limit in seconds="),
    ({"grace_seconds": -1}, "grace in seconds=-1 must be a whole number from 0"),
    ({"grace_seconds": limits.GRACE_SECONDS_MAX + 1}, "grace in seconds="),
    ({"start_within_seconds": 0}, "start_within in seconds=0 must be"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_a_job_that_cannot_be_launched_is_refused(change: dict[str, object], message: str) -> None:
    """The refusal is one sentence that names the field and the value."""
    with pytest.raises(InvalidJob, match=message) as caught:
        replace(JOB, **change)  # type: ignore[arg-type]  # wrong values are the point
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": 0}, "nodes=0 must be a whole number from 1 to 10000"),
        ({"nodes": limits.NODES_MAX + 1}, "nodes=10001"),
        ({"tasks_per_node": 0}, "tasks_per_node=0"),
        ({"cpus_per_task": "2"}, "cpus='2' must be a whole number"),
        ({"memory_bytes": 1}, "memory in bytes=1 must be"),
        ({"gpus_per_node": -1}, "gpus=-1 must be a whole number from 0"),
        ({"gpu_type": "a100"}, "gpu_type='a100' without gpus: say how many"),
    ],
)
def test_resources_that_nobody_has_are_refused(change: dict[str, object], message: str) -> None:
    """Each amount has its range, and a GPU type needs a number of GPUs."""
    with pytest.raises(InvalidJob, match=message):
        Resources(**change)  # type: ignore[arg-type]  # wrong values are the point


def test_a_refusal_is_a_value_error_too() -> None:
    """Airflow shows it as an error of the DAG's author, and code may catch either."""
    with pytest.raises(ValueError, match="either a command or a script"):
        Job(cluster="c", time_limit_seconds=1)
