"""The run's own output, told to the journal while it runs and to its end after it: bounded.

Restartable.

Where to read on is kept in this process only: a supervisor that takes over tells the output from
the start again, into a log of its own. Output is for people; nothing is decided on it, and a piece
that cannot be read now is read later.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_dispatch import limits
from airflow_dispatch.core.record import ObjectState, Record
from airflow_dispatch.errors import ClusterUnavailable
from airflow_dispatch.ports.journal import Level
from airflow_dispatch.supervisor.services import Services


@dataclass(slots=True)
class Tail:
    """How far the output of which object was told."""

    object: str = ""
    offset: int = 0
    cut: bool = False

    async def tell(self, services: Services, record: Record) -> None:
        """Tell what is new, up to `limits.OUTPUT_CHUNKS_PER_PASS` pieces.

        More comes with the next pass.
        """
        wanted = _runs(record)
        if wanted is None:
            return
        if wanted.id != self.object:
            self.object, self.offset, self.cut = wanted.id, 0, False
        cluster = await services.clusters.get(record.state.cluster)
        key = record.state.key
        for _ in range(limits.OUTPUT_CHUNKS_PER_PASS):
            if self.offset >= limits.OUTPUT_BYTES_MAX:
                self._cut(services, cluster.places(key, wanted.id, wanted.mark).output)
                return
            try:
                piece = await cluster.read_output(
                    key,
                    wanted.id,
                    wanted.mark,
                    offset=self.offset,
                    limit=limits.OUTPUT_CHUNK_BYTES_MAX,
                )
            except ClusterUnavailable as error:
                services.journal.tell(
                    Level.WARNING, f"The run's output cannot be read now: {error}"
                )
                return
            if piece.text:
                services.journal.output(piece.text)
            if piece.offset == self.offset:
                return
            self.offset = piece.offset

    def _cut(self, services: Services, place: str) -> None:
        if not self.cut:
            mib = limits.OUTPUT_BYTES_MAX >> 20
            services.journal.tell(
                Level.WARNING, f"The output is longer than {mib} MiB; the rest is in {place}"
            )
            self.cut = True


def _runs(record: Record) -> ObjectState | None:
    """The canonical object, once it was seen started."""
    newest = record.state.newest
    if newest is None or newest.canonical is None:
        return None
    wanted = record.state.object(newest.canonical)
    return wanted if wanted is not None and wanted.started else None
