"""From an operator's parameters to a job: what is refused, in which words, and when."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path, PurePosixPath

import pytest

from airflow_dispatch import limits
from airflow_dispatch.core.job import Job, Unmatched
from airflow_dispatch.core.record import OnClear
from airflow_dispatch.errors import InvalidJob
from airflow_dispatch.surface import jobs
from airflow_dispatch.surface.jobs import Defaults

DEFAULTS = Defaults(time_limit_seconds=3600, grace_seconds=30)
MINIMAL: dict[str, object] = {"cluster": "local", "command": ["true"]}


class Later:
    """Stands for an XComArg: what Airflow resolves when the task runs."""

    def iter_references(self) -> list[object]:
        """What an XComArg has."""
        return []


def built(**parameters: object) -> Job:
    """The job of rendered parameters."""
    return jobs.build({**MINIMAL, **parameters}, defaults=DEFAULTS, folder=None)


def checked(**parameters: object) -> None:
    """Check unrendered parameters."""
    jobs.check({**MINIMAL, **parameters}, folder=None)


BAD: list[tuple[dict[str, object], str]] = [
    ({"cluster": ""}, "cluster is empty"),
    ({"cluster": 7}, "cluster=7 must be text"),
    ({"command": None}, "give exactly one of command, script and script_file, not none of them"),
    ({"command": []}, "give exactly one of command, script and script_file, not none of them"),
    ({"script": "true"}, "not command and script"),
    ({"script_file": "a.sh"}, "not command and script_file"),
    ({"command": ["python", None]}, r"command\[1\]=None must be text or a number"),
    ({"command": ["python", True]}, r"command\[1\]=True must be text or a number"),
    ({"command": {"python": 1}}, "must be a list of words"),
    ({"command": b"python"}, "must be a list of words"),
    ({"command": [""]}, "first word of the command is empty"),
    ({"command": ["a\0b"]}, "NUL"),
    ({"command": None, "script": 3}, "script=3 must be text"),
    ({"cpus": 0}, "cpus=0 must be a whole number from 1 to"),
    ({"cpus": -1}, "cpus=-1 must be a whole number from 1 to"),
    ({"cpus": 10**9}, "cpus=1000000000 must be a whole number from 1 to"),
    ({"cpus": 1.5}, "cpus=1.5 must be a whole number"),
    ({"cpus": True}, "cpus=True must be a whole number"),
    ({"cpus": "two"}, "cpus='two' must be a whole number"),
    ({"cpus": "²"}, "must be a whole number"),
    ({"nodes": 0}, "nodes=0"),
    ({"tasks_per_node": -3}, "tasks_per_node=-3"),
    ({"gpus": -1}, "gpus=-1"),
    ({"gpu_type": "h100"}, "without gpus"),
    ({"memory": "1gib"}, "unknown unit 'gib'"),
    ({"memory": "16"}, "not an amount of memory"),
    ({"memory": 16}, "not an amount of memory"),
    ({"memory": "-1GiB"}, "not an amount of memory"),
    ({"memory": "0GiB"}, "between 1MiB and"),
    ({"memory": "9999999TiB"}, "between 1MiB and"),
    ({"time_limit": "10 minutes"}, "unknown unit 'minutes'"),
    ({"time_limit": "10"}, "is not a duration"),
    ({"time_limit": 0}, "between 1 second and 366 days"),
    ({"time_limit": timedelta(days=-1)}, "between 1 second and 366 days"),
    ({"time_limit": "9999d"}, "between 1 second and 366 days"),
    ({"time_limit": [1]}, "is not a duration"),
    ({"start_within": -5}, "start_within=-5"),
    ({"grace": "-5s"}, "is not a duration"),
    ({"grace": "2d"}, "grace in seconds"),
    ({"grace": False}, "grace=False is not a duration"),
    ({"workdir": "data"}, "workdir='data' must be an absolute path"),
    ({"workdir": 3}, "workdir=3 must be text"),
    ({"env": {"1A": "x"}}, "'1A' is none that a shell accepts"),
    ({"env": {"A B": "x"}}, "'A B' is none that a shell accepts"),
    ({"env": {"": "x"}}, "'' is none that a shell accepts"),
    ({"env": {"Ä": "x"}}, "is none that a shell accepts"),
    ({"env": {"DISPATCH_KEY": "x"}}, "are set by dispatch"),
    ({"env": {3: "x"}}, "the name 3 must be text"),
    ({"env": {"A": None}}, r"env\['A'\]=None must be text or a number"),
    ({"env": {"A": "x\0"}}, "NUL"),
    ({"env": "A=1"}, "env='A=1' must be a dictionary"),
    ({"env": [("A", "1")]}, "must be a dictionary"),
    ({"options": {"a": {"b": 1}}}, "must be text or a number"),
    ({"mounts": "a:b"}, "mounts='a:b' must be a list of words"),
    ({"image": 4}, "image=4 must be text"),
    ({"unmatched": "maybe"}, "unmatched='maybe': write 'auto' or 'manual'"),
]


@pytest.mark.parametrize(("parameters", "words"), BAD, ids=lambda value: str(value)[:60])
def test_what_is_wrong_is_refused_in_one_sentence(
    parameters: dict[str, object], words: str
) -> None:
    """Each bad value is refused while the DAG is parsed, and after rendering, in the same words."""
    with pytest.raises(InvalidJob, match=words) as parsing:
        checked(**parameters)
    with pytest.raises(InvalidJob) as running:
        built(**parameters)
    assert str(parsing.value) == str(running.value)
    assert "\n" not in str(running.value)


def test_everything_that_is_given_reaches_the_job() -> None:
    """No parameter is dropped on the way."""
    job = built(
        command=["python", PurePosixPath("/t.py"), "--epochs", 20, 0.5],
        workdir=PurePosixPath("/data"),
        env={"B": 2, "A": "x"},
        cpus=4,
        memory="16GiB",
        nodes=2,
        tasks_per_node=3,
        gpus=1,
        gpu_type="h100",
        time_limit="1d 6h",
        start_within=timedelta(minutes=5),
        grace=0,
        account="a",
        partition="p",
        qos="q",
        queue_name="u",
        image="registry/image:1",
        mounts=["/a:/b"],
        unmatched="manual",
        options={"z": 1, "exclusive": "yes"},
    )
    assert job.command == ("python", "/t.py", "--epochs", "20", "0.5")
    assert job.env == (("A", "x"), ("B", "2"))
    resources = job.resources
    assert (resources.cpus_per_task, resources.nodes, resources.tasks_per_node) == (4, 2, 3)
    assert (resources.memory_bytes, resources.gpus_per_node) == (16 << 30, 1)
    assert resources.gpu_type == "h100"
    assert (job.time_limit_seconds, job.start_within_seconds, job.grace_seconds) == (
        108_000,
        300,
        0,
    )
    placement = job.placement
    assert (placement.account, placement.partition, placement.qos) == ("a", "p", "q")
    assert (placement.queue, job.image, job.mounts) == ("u", "registry/image:1", ("/a:/b",))
    assert job.unmatched is Unmatched.MANUAL
    assert job.options == (("exclusive", "yes"), ("z", "1"))
    assert job.workdir == "/data"


def test_what_is_not_given_has_its_default() -> None:
    """Limits come from the site's options, resources are the smallest."""
    job = built()
    assert (job.time_limit_seconds, job.grace_seconds) == (3600, 30)
    assert (job.resources.cpus, job.resources.memory_bytes) == (1, None)
    assert built(account="", memory=None, env={}, mounts=[]) == job


def test_a_command_of_one_text_is_a_script_for_the_shell() -> None:
    """A list is passed on word by word; a text is what /bin/sh runs."""
    assert built(command="echo $HOME | wc").script == "echo $HOME | wc"
    assert built(command=None, script="#!/usr/bin/env python3\n").script.startswith("#!")


def test_numbers_may_come_out_of_a_template() -> None:
    """A template always renders to text; a text of digits is the number."""
    job = built(cpus="4", gpus=" 2 ", memory="1GiB", time_limit="2h", grace="0s")
    assert (job.resources.cpus_per_task, job.resources.gpus_per_node) == (4, 2)
    assert (job.time_limit_seconds, job.grace_seconds) == (7200, 0)


TEMPLATED = ("cluster", "workdir", "cpus", "memory", "nodes", "gpus", "time_limit", "grace")
TEMPLATES: list[dict[str, object]] = [
    *(dict[str, object]({name: "{{ params.x }}"}) for name in TEMPLATED),
    {"command": "{{ params.x }}"},
    {"command": ["run", "{% if x %}a{% endif %}"]},
    {"command": None, "script": "{{ params.x }}"},
    {"command": None, "script_file": "{{ params.x }}.sh"},
    {"env": {"A": "{{ ds }}"}},
    {"env": "{{ params.env }}"},
    {"env": {"{{ params.name }}": "x"}},
    {"gpus": "{{ params.x }}", "gpu_type": "h100"},
    {"mounts": "{{ params.x }}"},
]


@pytest.mark.parametrize("parameters", TEMPLATES, ids=str)
def test_a_template_is_checked_when_it_is_rendered(parameters: dict[str, object]) -> None:
    """What cannot be known while the DAG is parsed is not held against the author then."""
    checked(**parameters)


@pytest.mark.parametrize(
    "parameters",
    [
        {name: Later()}
        for name in (*jobs.TEXTS, *jobs.NUMBERS, "cluster", "command", "env", "memory", "grace")
        if name != "gpu_type"
    ]
    + [
        {"command": ["run", Later()]},
        {"env": {"A": Later()}},
        {"command": None, "script": Later()},
        {"command": None, "script_file": Later()},
        {"options": Later()},
        {"mounts": Later()},
    ],
    ids=str,
)
def test_the_value_of_another_task_is_checked_when_it_is_there(
    parameters: dict[str, object],
) -> None:
    """An XComArg may stand for every parameter, or be part of a list or dictionary."""
    checked(**parameters)


def test_a_template_hides_only_itself() -> None:
    """The rest of the parameters is still checked, down to the other names of an env."""
    with pytest.raises(InvalidJob, match="cpus=0"):
        checked(command="{{ params.x }}", cpus=0)
    with pytest.raises(InvalidJob, match="'1A'"):
        checked(env={"1A": "{{ ds }}"})
    with pytest.raises(InvalidJob, match="not command and script"):
        checked(command="{{ params.x }}", script="{{ params.y }}")


def test_a_script_file_is_read(tmp_path: Path) -> None:
    """From its absolute path, or from beside the DAG file; its text is not rendered."""
    (tmp_path / "train.sh").write_text("echo ${#files[@]} {{ kept }}\n")
    parameters = {"cluster": "local", "script_file": "train.sh"}
    jobs.check(parameters, folder=tmp_path)
    job = jobs.build(parameters, defaults=DEFAULTS, folder=tmp_path)
    assert job.script == "echo ${#files[@]} {{ kept }}\n"
    absolute = {"cluster": "local", "script_file": tmp_path / "train.sh"}
    assert jobs.build(absolute, defaults=DEFAULTS, folder=None) == job


def test_a_script_file_that_cannot_be_is_refused(tmp_path: Path) -> None:
    """Missing, a folder, over 1 MiB, no text, or empty: one sentence that names the file."""
    (tmp_path / "large.sh").write_bytes(b"#" * (limits.SCRIPT_BYTES_MAX + 1))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "folder").mkdir()
    for name, words in (
        ("missing.sh", "cannot be read: No such file"),
        ("folder", "cannot be read: Is a directory"),
        ("large.sh", "is larger than 1 MiB"),
        ("binary", "is not UTF-8 text"),
    ):
        parameters = {"cluster": "local", "script_file": name}
        for call in (
            lambda p=parameters: jobs.check(p, folder=tmp_path),
            lambda p=parameters: jobs.build(p, defaults=DEFAULTS, folder=tmp_path),
        ):
            with pytest.raises(InvalidJob, match=words) as refused:
                call()
            assert name in str(refused.value)


def test_a_script_file_of_exactly_the_limit_is_taken(tmp_path: Path) -> None:
    """1 MiB is allowed."""
    (tmp_path / "large.sh").write_bytes(b"#" * limits.SCRIPT_BYTES_MAX)
    parameters = {"cluster": "local", "script_file": "large.sh"}
    assert len(jobs.build(parameters, defaults=DEFAULTS, folder=tmp_path).script) == 1 << 20


def test_an_empty_script_file_is_refused(tmp_path: Path) -> None:
    """A run of nothing is a mistake."""
    (tmp_path / "empty.sh").touch()
    with pytest.raises(InvalidJob, match="is empty"):
        jobs.check({"cluster": "local", "script_file": "empty.sh"}, folder=tmp_path)


def test_an_absolute_script_file_is_looked_for_where_the_task_runs() -> None:
    """The DAG processor may be another host than the worker, so parsing does not miss the file."""
    jobs.check({"cluster": "local", "script_file": "/only/on/workers.sh"}, folder=Path("/dags"))


def test_the_words_for_a_clear_are_those_of_the_record() -> None:
    """The list that parsing uses and the record's enumeration say the same."""
    assert set(jobs.ON_CLEAR) == {choice.value for choice in OnClear}
