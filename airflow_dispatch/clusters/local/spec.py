"""What a client tells the shim that it starts, and what the shim answers: one message each way.

The message goes through the shim's standard input, so that neither the script nor a value of the
environment is ever in a process list. Half a message (its sender died) is no message: the shim ends
and nothing has landed.

The shim uses this module too: it imports little.
"""

from __future__ import annotations

import errno
import json
import os
from typing import NamedTuple

from airflow_dispatch import limits

PERMANENT = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR),
    *(errno.ELOOP, errno.ENAMETOOLONG, errno.EMLINK),
}
"""What does not go away by trying again. Everything else may: a full disk, no process left."""


class Spec(NamedTuple):
    """One object to be held at its gate. Times and durations in seconds."""

    root: str
    uuid: str
    object: str
    deployment: str
    task_digest: str
    generation: int
    submission: int
    attempt: int
    run: str
    """The run folder."""
    deadline: float
    slots: int
    cpus: int
    memory_bytes: int | None
    time_limit: int
    grace: int
    command: list[str]
    script: str
    workdir: str
    environment: dict[str, str]

    @property
    def mark(self) -> dict[str, str | int]:
        """The mark, as an entry holds it."""
        return {
            "deployment": self.deployment,
            "task_digest": self.task_digest,
            "generation": self.generation,
            "submission": self.submission,
            "attempt": self.attempt,
            "tag": self.object,
        }


class Answer(NamedTuple):
    """What came of it. `refusal` is empty if the object is there."""

    refusal: str = ""
    permanent: bool = False


def refused(what: str, error: OSError) -> Answer:
    """A clear no from an error of the file system, before anything had landed."""
    code = error.errno or errno.EIO
    reason = f"{what}: {os.strerror(code)} ({error.filename or 'no file'}); nothing was launched"
    return Answer(reason, code in PERMANENT)


def encode(spec: Spec) -> bytes:
    """The message: its length in a line of its own, then JSON."""
    body = json.dumps(spec._asdict()).encode("ascii")
    return b"%d\n%b" % (len(body), body)


def decode(message: bytes) -> Spec | None:
    """The spec; None if the message is not whole."""
    header, _, body = message.partition(b"\n")
    if not header.isdigit() or len(body) != int(header) or len(body) > limits.LOCAL_SPEC_BYTES_MAX:
        return None
    told = json.loads(body)
    return Spec(**{name: told[name] for name in Spec._fields})


def encode_answer(answer: Answer) -> bytes:
    """One line."""
    return json.dumps(answer._asdict()).encode("ascii") + b"\n"


def decode_answer(message: bytes) -> Answer | None:
    """The answer; None if none came, or not all of it."""
    if not message.endswith(b"\n"):
        return None
    told = json.loads(message)
    return Answer(str(told["refusal"]), told["permanent"] is True)
