"""What the local cluster accepts of a connection and of a job, and how it says no."""

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_dispatch.clusters.local import adapter, layout, settings
from airflow_dispatch.clusters.local.refusals import refusals
from airflow_dispatch.core.job import Job, Placement, Resources
from airflow_dispatch.errors import InvalidConfiguration
from airflow_dispatch.ports.cluster import Cluster, ClusterKind

JOB = Job(cluster="local", time_limit_seconds=60, command=("true",))


def test_the_adapter_is_a_kind_of_cluster() -> None:
    """The entry point gives what the port asks for, and connecting contacts nothing."""
    kind: ClusterKind = adapter
    cluster: Cluster = kind.connect("mine", {"run_root": "/no/such/folder"})
    assert (kind.connection_type, cluster.name) == ("dispatch_local", "mine")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"run_root": "/r"}, ("/r", None, 0.1)),
        ({"run_root": "/r/../s//t/"}, ("/s/t", None, 0.1)),
        ({"run_root": "/r", "slots": 3, "poll_seconds": 0.05}, ("/r", 3, 0.05)),
        ({"run_root": "/r", "slots": "3", "poll_seconds": "0.2"}, ("/r", 3, 0.2)),
        ({"run_root": "/r", "slots": 2.0}, ("/r", 2, 0.1)),
        ({"run_root": "/r", "slots": "", "poll_seconds": None}, ("/r", None, 0.1)),
    ],
)
def test_settings_are_taken(
    given: dict[str, object], expected: tuple[str, int | None, float]
) -> None:
    """Numbers may come as text, and an empty value is one not given."""
    found = settings.parse("c", given)
    root, slots, poll = expected
    assert (found.run_root, found.poll_seconds) == (root, poll)
    assert found.slots >= 1 if slots is None else found.slots == slots


def test_a_root_may_lie_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is the home folder of whoever runs the supervisor."""
    monkeypatch.setenv("HOME", "/home-of-mine")
    assert settings.parse("c", {"run_root": "~/runs"}).run_root == "/home-of-mine/runs"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "run_root is missing"),
        ({"run_root": ""}, "run_root is missing"),
        ({"run_root": "runs"}, "must be absolute"),
        ({"run_root": 7}, "no folder's name"),
        ({"run_root": "/a\0b"}, "no folder's name"),
        ({"run_root": "~nobody-of-that-name/x"}, "home"),
        ({"run_root": "/r", "slot": 1}, "no setting 'slot'"),
        ({"run_root": "/r", "slots": 0}, "slots=0"),
        ({"run_root": "/r", "slots": -1}, "slots=-1"),
        ({"run_root": "/r", "slots": 1.5}, "slots=1.5"),
        ({"run_root": "/r", "slots": "many"}, "slots='many'"),
        ({"run_root": "/r", "slots": True}, "slots=True"),
        ({"run_root": "/r", "slots": 10**9}, "slots=1000000000"),
        ({"run_root": "/r", "slots": "nan"}, "slots='nan'"),
        ({"run_root": "/r", "slots": "inf"}, "slots='inf'"),
        ({"run_root": "/r", "poll_seconds": 60}, "poll_seconds=60"),
        ({"run_root": "/r", "poll_seconds": "nan"}, "poll_seconds='nan'"),
    ],
)
def test_wrong_settings_are_refused_by_name(given: dict[str, object], says: str) -> None:
    """One sentence names the connection and the setting."""
    with pytest.raises(InvalidConfiguration) as caught:
        settings.parse("my_cluster", given)
    assert says in str(caught.value)
    assert "'my_cluster'" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (replace(JOB, image="x"), "image='x': the local cluster runs no containers"),
        (replace(JOB, resources=Resources(nodes=2)), "nodes=2: "),
        (replace(JOB, resources=Resources(tasks_per_node=2)), "tasks_per_node=2: "),
        (replace(JOB, resources=Resources(gpus_per_node=1)), "gpus=1: "),
        (replace(JOB, resources=Resources(cpus_per_task=5)), "cpus=5: the local cluster has 4"),
        (replace(JOB, placement=Placement(account="x")), "account='x': "),
        (replace(JOB, placement=Placement(partition="x")), "partition='x': "),
        (replace(JOB, placement=Placement(qos="x")), "qos='x': "),
        (replace(JOB, placement=Placement(queue="x")), "queue='x': "),
        (replace(JOB, mounts=("/data",)), "mounts=['/data']: "),
        (replace(JOB, start_within_seconds=60), "start_within=60: "),
        (replace(JOB, options=(("a", "b"),)), "options={'a': 'b'}: "),
        (replace(JOB, workdir="here"), "workdir='here': "),
    ],
)
def test_what_a_job_may_not_ask_is_refused_by_name(job: Job, says: str) -> None:
    """One sentence per field, with its value."""
    (said,) = refusals(job, slots=4)
    assert said.startswith(says)
    assert "the local cluster" in said


def test_everything_wrong_is_told_at_once() -> None:
    """A job with two wrong fields gets two sentences, a right one none."""
    wrong = replace(JOB, image="x", mounts=("/a",))
    assert len(refusals(wrong, slots=4)) == 2
    fine = replace(JOB, workdir="/tmp", resources=Resources(cpus_per_task=4, memory_bytes=1 << 30))
    assert refusals(fine, slots=4) == ()


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["prod", "a_b-C9", "0" * 64])
def test_a_plain_deployment_names_its_folder(name: str) -> None:
    """People find the runs of a deployment under its own name."""
    assert layout.deployment_folder(name) == name


def test_hostile_deployments_keep_apart() -> None:
    """Names that no folder can have, or that would meet another one, are hashed, each its own."""
    names = ["", ".", "..", "a/b", "/", "a b", "ä", "\ud800", "spool", "x" * 65, "a\0", ".spool"]
    names.append(layout.deployment_folder("spool"))
    folders = [layout.deployment_folder(name) for name in names]
    assert len(set(folders)) == len(names)
    assert not {"spool", ".", ".."} & set(folders)
    assert all(Path(folder).name == folder for folder in folders)


@pytest.mark.parametrize("tag", ["", ".tmp.x", "a/b", "..", "a.b", "x" * 65, "ä", "a\n"])
def test_not_every_text_names_an_object(tag: str) -> None:
    """A tag that could leave its folder or be taken for something else is none."""
    assert not layout.is_object(tag)
    assert layout.is_object("0123456789abcdef" * 2)
