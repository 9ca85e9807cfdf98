"""From an operator's parameters to a job: the same when a DAG is parsed and when it runs.

At parse time a template is not rendered yet and an XComArg has no value, so each is replaced by a
stand-in that is fine; everything else is checked then and there. `build` is what the worker calls
after rendering. A message names the parameter as the author wrote it. No part of Airflow is
imported here, so that parsing stays fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePath, PurePosixPath

from airflow_dispatch import limits
from airflow_dispatch.core import quantities
from airflow_dispatch.core.job import Job, Placement, Resources, Unmatched
from airflow_dispatch.errors import InvalidJob

Parameters = Mapping[str, object]
"""The operator's parameters by name; None and empty text mean that the author gave none."""

NUMBERS = ("cpus", "nodes", "tasks_per_node", "gpus")
TEXTS = (
    "gpu_type",
    "workdir",
    "image",
    "account",
    "partition",
    "qos",
    "queue_name",
)
UNMATCHED = tuple(choice.value for choice in Unmatched)
ON_CLEAR = ("restart", "reattach")
"""The values of `OnClear`, whose module would take half of the time that parsing may."""
WHAT = ("command", "script", "script_file")


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where the author says nothing."""

    time_limit_seconds: int
    grace_seconds: int


STAND_IN_DEFAULTS = Defaults(time_limit_seconds=1, grace_seconds=0)


def check(parameters: Parameters, *, folder: Path | None) -> None:
    """Raise `InvalidJob` for whatever can be known to be wrong before templates are rendered.

    `folder` is that of the DAG file, if it is known: a script file beside it must be there.
    """
    _one_of(parameters)
    known = {name: _stood_in(name, value) for name, value in parameters.items()}
    if not _unset(parameters.get("script_file")):
        path = text("script_file", known["script_file"])
        if folder is not None and not is_template(path) and not PurePath(path).is_absolute():
            script_file(path, folder=folder)
        known |= {"script_file": None, "script": "exit"}
    build(known, defaults=STAND_IN_DEFAULTS, folder=folder)


def build(parameters: Parameters, *, defaults: Defaults, folder: Path | None) -> Job:
    """The job that rendered parameters describe; raises `InvalidJob`."""
    _one_of(parameters)
    numbers = {name: _whole(name, parameters.get(name)) for name in NUMBERS}
    texts = {name: text(name, parameters.get(name)) for name in TEXTS}
    memory = parameters.get("memory")
    start_within = parameters.get("start_within")
    command, script = _what(parameters, folder)
    return Job(
        cluster=text("cluster", parameters.get("cluster")),
        command=command,
        script=script,
        workdir=_workdir(texts["workdir"]),
        env=_pairs("env", parameters.get("env")),
        resources=Resources(
            nodes=_or(numbers["nodes"], 1),
            tasks_per_node=_or(numbers["tasks_per_node"], 1),
            cpus_per_task=_or(numbers["cpus"], 1),
            memory_bytes=None if _unset(memory) else quantities.memory_bytes("memory", memory),
            gpus_per_node=_or(numbers["gpus"], 0),
            gpu_type=texts["gpu_type"],
        ),
        placement=Placement(
            account=texts["account"],
            partition=texts["partition"],
            qos=texts["qos"],
            queue=texts["queue_name"],
        ),
        image=texts["image"],
        mounts=tuple(_words("mounts", parameters.get("mounts"))),
        time_limit_seconds=_time(parameters, "time_limit", defaults.time_limit_seconds),
        start_within_seconds=None
        if _unset(start_within)
        else quantities.duration_seconds("start_within", start_within),
        grace_seconds=_grace(parameters.get("grace"), defaults.grace_seconds),
        unmatched=Unmatched(
            choice("unmatched", parameters.get("unmatched", "auto"), among=UNMATCHED)
        ),
        options=_pairs("options", parameters.get("options")),
    )


def choice(name: str, value: object, *, among: tuple[str, ...]) -> str:
    """One of a few words."""
    if isinstance(value, str) and value in among:
        return value
    raise InvalidJob(f"{name}={value!r}: write {' or '.join(map(repr, among))}")


def script_file(path: str | PurePath, *, folder: Path | None) -> str:
    """The text of a script file; a relative path is taken from the folder of the DAG file."""
    found = Path(path)
    if not found.is_absolute():
        if folder is None:
            raise InvalidJob(f"script_file={str(path)!r} is relative, but to no known DAG file")
        found = folder / found
    try:
        with found.open("rb") as file:
            content = file.read(limits.SCRIPT_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidJob(
            f"script_file={str(found)!r} cannot be read: {error.strerror or error}"
        ) from error
    if len(content) > limits.SCRIPT_BYTES_MAX:
        raise InvalidJob(
            f"script_file={str(found)!r} is larger than 1 MiB: install it where it runs, and call"
            " it from there"
        )
    if not content.strip():
        raise InvalidJob(f"script_file={str(found)!r} is empty: there is nothing to run")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidJob(f"script_file={str(found)!r} is not UTF-8 text: {error.reason}") from error


def text(name: str, value: object) -> str:
    """Text as it is; a path is text too; None is empty."""
    if value is None:
        return ""
    if isinstance(value, (str, PurePath)):
        return str(value)
    raise InvalidJob(f"{name}={value!r} must be text")


def is_template(value: object) -> bool:
    """Whether the value is known only when the task runs."""
    if isinstance(value, str):
        return "{{" in value or "{%" in value
    return hasattr(value, "iter_references")  # an XComArg, or what else Airflow resolves


def _stood_in(name: str, value: object) -> object:
    """What is checked at parse time in place of a value that is known only later."""
    if name == "command" and isinstance(value, (list, tuple)):
        return ["x" if not isinstance(word, str) and is_template(word) else word for word in value]
    if name in ("env", "options") and isinstance(value, Mapping):
        return {
            key: "" if is_template(inner) else inner
            for key, inner in value.items()
            if not is_template(key)
        }
    if not is_template(value) or (isinstance(value, str) and name in (*TEXTS, "cluster", *WHAT)):
        return value
    if name in (*WHAT, "cluster"):
        return "{{ later }}"
    return 1 if name == "gpus" else None


def _one_of(parameters: Parameters) -> None:
    given = [name for name in WHAT if not _unset(parameters.get(name))]
    if len(given) != 1:
        found = " and ".join(given) or "none of them"
        raise InvalidJob(f"give exactly one of command, script and script_file, not {found}")


def _what(parameters: Parameters, folder: Path | None) -> tuple[tuple[str, ...], str]:
    """What runs: the words of a command, or the text of a script."""
    command, path = parameters.get("command"), parameters.get("script_file")
    if isinstance(command, str):
        return (), command
    if not _unset(path):
        return (), script_file(text("script_file", path), folder=folder)
    return tuple(_words("command", command)), text("script", parameters.get("script"))


def _words(name: str, value: object) -> list[str]:
    if _unset(value):
        return []
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise InvalidJob(f"{name}={value!r} must be a list of words")
    return [_word(f"{name}[{index}]", word) for index, word in enumerate(value)]


def _word(name: str, value: object) -> str:
    if isinstance(value, (str, PurePath)):
        return str(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    raise InvalidJob(f"{name}={value!r} must be text or a number")


def _pairs(name: str, value: object) -> tuple[tuple[str, str], ...]:
    if _unset(value):
        return ()
    if not isinstance(value, Mapping):
        raise InvalidJob(f"{name}={value!r} must be a dictionary of names and values")
    for key in value:
        if not isinstance(key, str):
            raise InvalidJob(f"{name}: the name {key!r} must be text")
    return tuple((key, _word(f"{name}[{key!r}]", value[key])) for key in sorted(value))


def _whole(name: str, value: object) -> int | None:
    """A whole number, or the text that a template rendered to; its range is checked by the job."""
    if _unset(value):
        return None
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdecimal():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise InvalidJob(f"{name}={value!r} must be a whole number")


def _workdir(path: str) -> str:
    if path and not is_template(path) and not PurePosixPath(path).is_absolute():
        raise InvalidJob(
            f"workdir={path!r} must be an absolute path on the cluster's hosts, as '/data/training'"
        )
    return path


def _time(parameters: Parameters, name: str, default: int) -> int:
    value = parameters.get(name)
    return default if _unset(value) else quantities.duration_seconds(name, value)


def _grace(value: object, default: int) -> int:
    """Of all the times, the only one that may be nothing at all."""
    if _unset(value):
        return default
    if value in (0, "0", "0s", timedelta(0)) and not isinstance(value, bool):
        return 0
    return quantities.duration_seconds("grace", value)


def _unset(value: object) -> bool:
    return value is None or (isinstance(value, (str, list, tuple, Mapping)) and len(value) == 0)


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
