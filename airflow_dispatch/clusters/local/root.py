"""The run root: which one it is, and how it is made the first time.

A root is known by its marker, a file with a random id; a folder without it is no root, whatever
else is there, because an unmounted disk leaves an empty folder behind that must not be taken for a
cluster without runs. [evidence-only] Only `make` makes a root, and only of a folder that is missing
or wholly empty.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from airflow_dispatch import limits
from airflow_dispatch.clusters.local import gate, layout
from airflow_dispatch.errors import ClusterUnavailable, InvalidConfiguration


@dataclass(frozen=True, slots=True)
class Root:
    """A run root whose marker was read just now."""

    path: str
    uuid: str

    @property
    def fingerprint(self) -> str:
        """The cluster: this root as seen by this host."""
        return f"local:{self.uuid}@{os.uname().nodename}"


def read(path: str) -> Root:
    """The root; raises `ClusterUnavailable` where its marker cannot be read."""
    marker = f"{path}/{layout.MARKER}"
    try:
        told = json.loads(gate.read_small(marker))
        return Root(path, str(told["uuid"]))
    except FileNotFoundError as error:
        raise ClusterUnavailable(
            f"{path} is no run root of the local cluster now: it has no {layout.MARKER}; is its "
            "disk mounted? What runs there goes on"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ClusterUnavailable(
            f"the marker {marker} cannot be read ({error}); what runs there goes on"
        ) from error


def make(path: str) -> Root:
    """The root, made if its folder is missing or empty; checked to take what a launch writes."""
    folder = Path(path)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _has_marker(folder):
            _mark(folder)
        root = read(path)
        _try_out(folder)
    except OSError as error:
        raise _refusal(path, error) from error
    return root


def _has_marker(folder: Path) -> bool:
    return (folder / layout.MARKER).exists()


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _mark(folder: Path) -> None:
    there = [name for name in _names(folder) if not name.startswith(gate.TEMPORARY)]
    if there and layout.MARKER not in there:
        raise InvalidConfiguration(
            f"run_root={str(folder)!r} holds {min(there)!r} and no {layout.MARKER}: it is "
            "not a run root and not empty; name an empty folder or one that does not exist"
        )
    told = {
        "uuid": str(uuid.uuid4()),
        "host": os.uname().nodename,
        "made_at": datetime.now(timezone.utc).isoformat(),
    }
    # Of two that make the root at once the first one's marker counts.
    gate.place(str(folder), layout.MARKER, json.dumps(told, sort_keys=True) + "\n", durable=True)


def _try_out(folder: Path) -> None:
    spool = folder / layout.SPOOL
    spool.mkdir(mode=0o700, exist_ok=True)
    name = f"{gate.TEMPORARY}{uuid.uuid4().hex}"
    try:
        gate.place(str(spool), name, "x" * 4096)
    finally:
        (spool / name).unlink(missing_ok=True)
    free = shutil.disk_usage(spool).free
    if free < limits.LOCAL_FREE_BYTES_MIN:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(spool))


def _refusal(path: str, error: OSError) -> ClusterUnavailable | InvalidConfiguration:
    what = f"run_root={path!r}"
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            mib = limits.LOCAL_FREE_BYTES_MIN >> 20
            return ClusterUnavailable(
                f"{what}: the disk is full or the quota is used up; free at least {mib} MiB; "
                "nothing was launched"
            )
        case errno.EROFS:
            return InvalidConfiguration(
                f"{what} is on a read-only file system; mount it writable or name another folder"
            )
        case errno.EACCES | errno.EPERM:
            return InvalidConfiguration(
                f"{what}: user {os.geteuid()} may not write there, or the file system has no hard "
                "links; mend the permissions or name another folder"
            )
        case _:
            return InvalidConfiguration(f"{what} cannot be used: {error}")
