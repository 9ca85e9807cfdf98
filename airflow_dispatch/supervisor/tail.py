"""The run's own output, told to the journal while it runs and to its end after it: bounded.

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
    lines: int = 0
    cut: bool = False
    again: bool = False
    """Another supervisor told the beginning already, elsewhere: say so before telling it again."""

    async def tell(self, services: Services, record: Record) -> bool:
        """Tell what is new, as much as one pass may; whether there may be more to tell now."""
        wanted = _runs(record)
        if wanted is None:
            return False
        if wanted.id != self.object:
            self.object, self.offset, self.lines, self.cut = wanted.id, 0, 0, False
        cluster = await services.clusters.get(record.state.cluster)
        key, enough = record.state.key, self.lines + limits.OUTPUT_LINES_PER_PASS
        for _ in range(limits.OUTPUT_CHUNKS_PER_PASS):
            if self.offset >= limits.OUTPUT_BYTES_MAX or self.lines >= limits.OUTPUT_LINES_MAX:
                self._cut(services, cluster.places(key, wanted.id, wanted.mark).output)
                return False
            if self.lines >= enough:
                break
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
                return False
            if piece.text and self.again:
                services.journal.tell(Level.INFO, "What the run wrote so far, from its start:")
                self.again = False
            await self._told(services, piece.text)
            if piece.offset == self.offset:
                return False
            self.offset = piece.offset
        return True

    async def finish(self, services: Services, record: Record) -> None:
        """Tell the rest of what a run wrote, up to the limits: no pass comes after this."""
        while await self.tell(services, record):
            pass

    async def _told(self, services: Services, text: str) -> None:
        """Tell a piece, a few lines at a time: a run that prints much must stall nobody else."""
        lines = text.split("\n")[: limits.OUTPUT_LINES_MAX - self.lines + 1]
        self.lines += len(lines) - 1
        for start in range(0, len(lines), limits.OUTPUT_LINES_AT_ONCE):
            end = start + limits.OUTPUT_LINES_AT_ONCE
            part = "\n".join(lines[start:end]) + ("\n" if end < len(lines) else "")
            if part:
                services.journal.output(part)
                await services.clock.sleep(0)

    def _cut(self, services: Services, place: str) -> None:
        if not self.cut:
            mib, lines = limits.OUTPUT_BYTES_MAX >> 20, limits.OUTPUT_LINES_MAX
            services.journal.tell(
                Level.WARNING,
                f"The output is longer than {mib} MiB or {lines} lines; the rest is in {place}",
            )
            self.cut = True


def _runs(record: Record) -> ObjectState | None:
    """The canonical object, once it was seen started."""
    newest = record.state.newest
    if newest is None or newest.canonical is None:
        return None
    wanted = record.state.object(newest.canonical)
    return wanted if wanted is not None and wanted.started else None
