"""Reading what a run left: its output piece by piece, its result.

Offsets are bytes. A character that is not all there yet is left for the next piece; what is no
UTF-8 becomes replacement characters, so that output can always be shown. The run may have put
anything in the place of these files: what is none is told as such and never waited for.
"""

from __future__ import annotations

import codecs
from pathlib import Path

from airflow_dispatch import limits
from airflow_dispatch.clusters.local import entries, gate, layout
from airflow_dispatch.clusters.local.root import Root
from airflow_dispatch.core.identity import Mark
from airflow_dispatch.errors import ClusterUnavailable, ensure
from airflow_dispatch.ports.cluster import Output

_CHARACTER_BYTES_MAX = 4


def read_output(root: Root, mark: Mark, *, offset: int, limit: int) -> Output:
    """Up to `limit` bytes (at least 4) from `offset`."""
    ensure(
        offset >= 0 and limit >= _CHARACTER_BYTES_MAX,
        f"output is read in pieces of 4 bytes or more, not {limit} from {offset}",
    )
    ended = _ended(root, mark)
    path = Path(entries.submission_folder(root.path, mark), layout.OUTPUT)
    try:
        with gate.opened(str(path)) as file:
            file.seek(offset)
            piece = file.read(limit)
            last = not file.read(1)
    except FileNotFoundError:
        return Output("", offset, complete=ended)
    except gate.NoFileError as error:
        raise _replaced(path) from error
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(piece, final=ended and last)
    left = len(decoder.getstate()[0])
    return Output(text, offset + len(piece) - left, complete=ended and last)


def _ended(root: Root, mark: Mark) -> bool:
    """Asked before the output is read: what an ended run wrote is all there."""
    entry = entries.read(root.path, mark.task_digest, mark.tag)
    if entry is None or entry.mark != mark:
        return True
    evidence, _ = entries.look(root.path, entry, entries.Here.now())
    return not (evidence.shim_lives or evidence.run_lives)


def read_result(root: Root, mark: Mark) -> str | None:
    """The text, of which no more is read than one byte beyond `limits.RESULT_BYTES_MAX`."""
    path = Path(entries.submission_folder(root.path, mark), layout.RESULT)
    try:
        with gate.opened(str(path)) as file:
            return file.read(limits.RESULT_BYTES_MAX + 1).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except gate.NoFileError as error:
        raise _replaced(path) from error


def _replaced(path: Path) -> ClusterUnavailable:
    return ClusterUnavailable(f"{path} is no regular file: the run put something else in its place")
