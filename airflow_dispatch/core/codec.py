"""JSON for states and commits: versioned, strict, small.

Every value is written by its declared type: a dataclass as an object without the fields that hold
their default, a member of a union as an object that names its class under `is`, times as ISO 8601
in UTC. What is read must be exactly what is known: an unknown field, class or version raises
`UnreadableRecord`, so that an older program takes no decision on a record that a newer one has
extended. Each change of the written form raises `VERSION`, adds an upgrade from the version before,
and keeps the golden files of all versions readable.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Callable
from datetime import datetime, timezone
from enum import Enum
from functools import cache
from typing import Union, get_args, get_origin, get_type_hints

from airflow_dispatch.core.commits import KINDS, Body, kind_of
from airflow_dispatch.core.job import Job
from airflow_dispatch.core.record import State
from airflow_dispatch.errors import InvalidJob, InvariantBroken, UnreadableRecord, ensure

VERSION = 1

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

UPGRADES: dict[int, Callable[[dict[str, Json]], dict[str, Json]]] = {}
"""From version n to n + 1, on the parsed JSON."""

_CLASSES: dict[str, type[Body]] = {kind: body for body, (kind, _) in KINDS.items()}


def encode_state(state: State) -> str:
    """The state as JSON text."""
    return _dumped({"v": VERSION, "state": _encode(State, state)})


def decode_state(text: str) -> State:
    """The state from JSON text of this or an earlier version."""
    found = _decode(State, _parsed(text, "state"))
    ensure(isinstance(found, State), "a state decodes to a state")
    return found  # type: ignore[return-value]  # checked on the line above


def encode_job(job: Job) -> str:
    """The job description as JSON text."""
    return _dumped({"v": VERSION, "job": _encode(Job, job)})


def decode_job(text: str) -> Job:
    """The job description from JSON text of this or an earlier version."""
    found = _decode(Job, _parsed(text, "job"))
    ensure(isinstance(found, Job), "a job decodes to a job")
    return found  # type: ignore[return-value]  # checked on the line above


def encode_body(body: Body) -> tuple[str, str]:
    """The kind of a commit's body, and the body as JSON text."""
    return kind_of(body), _dumped({"v": VERSION, "body": _encode(type(body), body)})


def decode_body(kind: str, text: str) -> Body:
    """The body of a commit from its kind and JSON text."""
    wanted = _CLASSES.get(kind)
    if wanted is None:
        raise UnreadableRecord(
            f"this version does not know commits of kind {kind!r}; upgrade airflow-dispatch here"
        )
    found = _decode(wanted, _parsed(text, "body"))
    ensure(isinstance(found, wanted), "a body decodes to its kind")
    return found  # type: ignore[return-value]  # checked on the line above


def _dumped(value: Json) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), sort_keys=False)


def _parsed(text: str, name: str) -> Json:
    """What stands under `name`, in the form of the present version."""
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableRecord(f"a stored record is not JSON: {error}") from error
    version = value.get("v") if isinstance(value, dict) else None
    if not isinstance(value, dict) or type(version) is not int:
        raise UnreadableRecord("a stored record has no version")
    if not 1 <= version <= VERSION:
        raise UnreadableRecord(
            f"a stored record has version {version} and this program knows up to {VERSION}; "
            "upgrade airflow-dispatch here"
        )
    while version < VERSION:
        value = UPGRADES[version](value)
        version += 1
    if name not in value:
        raise UnreadableRecord(f"a stored record has no {name!r}")
    unknown = sorted(set(value) - {"v", name})
    if unknown:
        raise UnreadableRecord(
            f"a stored record has {unknown[0]!r}, which this version does not know"
        )
    return value[name]


# --- by declared type -----------------------------------------------------------------------------


@cache
def _fields(wanted: type) -> dict[str, tuple[object, object]]:
    """Declared type and default (or MISSING) of each field, by name."""
    hints = get_type_hints(wanted)
    found: dict[str, tuple[object, object]] = {}
    for declared in dataclasses.fields(wanted):
        default: object = declared.default
        if declared.default_factory is not dataclasses.MISSING:
            default = declared.default_factory()
        found[declared.name] = (hints[declared.name], default)
    return found


def _members(wanted: object) -> tuple[type, ...]:
    """The members of a union type, None included; empty for any other type."""
    if get_origin(wanted) in (Union, types.UnionType):
        return tuple(get_args(wanted))
    return ()


def _encode(wanted: object, value: object) -> Json:
    members = _members(wanted)
    if members:
        return _encode_member(members, value)
    if value is None or (isinstance(value, (bool, int, float)) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, str):
        return value
    if isinstance(value, datetime):
        ensure(value.tzinfo is not None, "times on record are aware")
        return value.astimezone(timezone.utc).isoformat()
    if isinstance(value, tuple):
        return [
            _encode(inner, item)
            for inner, item in zip(_inner(wanted, len(value)), value, strict=True)
        ]
    ensure(
        dataclasses.is_dataclass(value) and type(value) is wanted, f"{value!r} is not a {wanted}"
    )
    written: type = type(value)
    fields = _fields(written)
    pairs = (
        (name, hint, default, getattr(value, name)) for name, (hint, default) in fields.items()
    )
    return {name: _encode(hint, item) for name, hint, default, item in pairs if item != default}


def _encode_member(members: tuple[type, ...], value: object) -> Json:
    if value is None:
        return None
    fitting = (m for m in members if m is not type(None) and (m is type(value) or _plain(m)))
    wanted = next(fitting, None)
    if wanted is None:
        raise InvariantBroken(f"{value!r} is not a {' or '.join(m.__name__ for m in members)}")
    written = _encode(wanted, value)
    several = sum(dataclasses.is_dataclass(m) for m in members) > 1
    return {"is": wanted.__name__, **written} if several and isinstance(written, dict) else written


def _plain(member: object) -> bool:
    return not dataclasses.is_dataclass(member)


def _inner(wanted: object, count: int) -> tuple[object, ...]:
    inner = get_args(wanted)
    if len(inner) == 2 and inner[1] is Ellipsis:
        return (inner[0],) * count
    if len(inner) != count:
        raise UnreadableRecord(f"a stored list has {count} items where {len(inner)} belong")
    return inner


def _decode(wanted: object, value: Json) -> object:
    members = _members(wanted)
    if members:
        return _decode_member(members, value)
    if get_origin(wanted) is tuple:
        if not isinstance(value, list):
            raise UnreadableRecord(f"a stored list is a {type(value).__name__}")
        return tuple(
            _decode(inner, item)
            for inner, item in zip(_inner(wanted, len(value)), value, strict=True)
        )
    if isinstance(wanted, type):
        return _decode_class(wanted, value)
    raise UnreadableRecord(f"no way to read a {wanted}")


def _decode_class(wanted: type, value: Json) -> object:
    if dataclasses.is_dataclass(wanted):
        return _decode_dataclass(wanted, value)
    if issubclass(wanted, Enum):
        try:
            return wanted(value)
        except ValueError as error:
            raise UnreadableRecord(
                f"a stored {wanted.__name__} is {value!r}, which this version does not know"
            ) from error
    if wanted is datetime:
        return _decode_time(value)
    if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)):
        return value
    raise UnreadableRecord(f"a stored {wanted.__name__} is {value!r}")


def _decode_time(value: Json) -> datetime:
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError as error:
        raise UnreadableRecord(f"a stored time is {value!r}") from error
    if moment.tzinfo is None:
        raise UnreadableRecord(f"a stored time is {value!r}, without a zone")
    return moment


def _decode_dataclass(wanted: type, value: Json) -> object:
    if not isinstance(value, dict):
        raise UnreadableRecord(f"a stored {wanted.__name__} is a {type(value).__name__}")
    fields = _fields(wanted)
    unknown = sorted(set(value) - set(fields))
    if unknown:
        raise UnreadableRecord(
            f"a stored {wanted.__name__} has {unknown[0]!r}, which this version does not know"
        )
    read = {name: _decode(fields[name][0], item) for name, item in value.items()}
    missing = [
        n for n, (_, default) in fields.items() if default is dataclasses.MISSING and n not in read
    ]
    if missing:
        raise UnreadableRecord(f"a stored {wanted.__name__} lacks {missing[0]!r}")
    try:
        return wanted(**read)
    except (InvariantBroken, InvalidJob) as error:
        raise UnreadableRecord(f"a stored {wanted.__name__} is impossible: {error}") from error


def _decode_member(members: tuple[type, ...], value: Json) -> object:
    if value is None and type(None) in members:
        return None
    classes = [m for m in members if dataclasses.is_dataclass(m)]
    if len(classes) > 1 and isinstance(value, dict):
        named = next((m for m in classes if m.__name__ == value.get("is")), None)
        if named is None:
            raise UnreadableRecord(
                f"a stored value is a {value.get('is')!r}, which this version does not know"
            )
        return _decode(named, {name: item for name, item in value.items() if name != "is"})
    return _decode(next(m for m in members if m is not type(None)), value)
