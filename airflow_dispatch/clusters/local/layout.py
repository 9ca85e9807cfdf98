"""Names and folders below a run root. Nothing is read or written here.

    <root>/.dispatch-root                                  the marker: which root this is
    <root>/spool/<task digest>/<object>/                   one object of the queue: its entry
    <root>/spool/.slots/, <root>/spool/.queue/             who holds and who waits for cpus
    <root>/<deployment>/<task digest>/                     the run folder, shared by all tries
    <root>/<deployment>/<task digest>/checkpoints/
    <root>/<deployment>/<task digest>/<generation>.<N>/    script, output, result.json
    <root>/<deployment>/<task digest>/<generation>.<N>/gate/

The shim uses this module too: it imports little, so that a shim starts fast and stays small.
"""

from __future__ import annotations

import re

MARKER = ".dispatch-root"
SPOOL = "spool"
SLOTS = ".slots"
QUEUE = ".queue"
TEMPORARY = ".tmp."
"""Prefix of what is not there yet: readers pass it over."""

ENTRY = "entry.json"
LOCK = "lock"
"""Locked by the shim for as long as it lives, and by nobody else."""
ALIVE = "alive"
"""Locked by the shim and by every process of the run that keeps its inherited descriptors."""
STOP = "stop"
WARNED = "warned"
PAYLOAD = "payload"
DONE = "done"
"""Placed by the shim right before it ends: its run left nothing behind."""
LOG = "shim.log"

CHECKPOINTS = "checkpoints"
GATE = "gate"
SCRIPT = "script"
OUTPUT = "output"
RESULT = "result.json"

_OBJECT = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_DEPLOYMENT = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_HASHED = "deployment-"


def is_object(text: str) -> bool:
    """Whether the text can name an object: a tag made for one start call."""
    return _OBJECT.fullmatch(text) is not None


def deployment_folder(deployment: str) -> str:
    """A folder name for a deployment; different deployments get different names."""
    plain = _DEPLOYMENT.fullmatch(deployment) is not None
    if plain and deployment != SPOOL and not deployment.startswith(_HASHED):
        return deployment
    import hashlib  # noqa: PLC0415 - it brings megabytes, and no shim comes this way

    return _HASHED + hashlib.sha256(deployment.encode("utf-8", "surrogatepass")).hexdigest()


def spool(root: str, task_digest: str) -> str:
    """The folder of all objects of a task."""
    return f"{root}/{SPOOL}/{task_digest}"


def run_folder(root: str, deployment: str, task_digest: str) -> str:
    """`DISPATCH_RUN_DIR`."""
    return f"{root}/{deployment_folder(deployment)}/{task_digest}"


def submission_folder(run: str, generation: int, submission: int) -> str:
    """Where one submission's script, output, result and gate are."""
    return f"{run}/{generation}.{submission}"


def start_mark(object: str, count: int) -> str:
    """`DISPATCH_OBJECT`: what every process of one start carries in its environment."""
    return f"{object}.{count}"
