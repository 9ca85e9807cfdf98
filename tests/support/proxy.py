"""A proxy before PostgreSQL that can cut connections around a COMMIT, or hold everything up.

It passes bytes on in both directions and looks only for the COMMIT of a client and for the server's
answer to it. Cut *before*, the server never sees the COMMIT and rolls back; cut *after*, the server
has committed and the client does not learn of it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum

# As the driver asks for it, and as the server acknowledges it: BEGIN says READ COMMITTED, too.
ASKED = b"COMMIT;\0"
ANSWERED = b"COMMIT\0"


class Cut(Enum):
    """Where the next COMMIT's connection is cut."""

    BEFORE = "before"
    AFTER = "after"
    NEVER = "never"
    """Not at all: it is held up, with everything after it, until `flows` is set."""


class Proxy:
    """Listens on a free port; cuts once for each time that it is told to."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0
        self.cut: Cut | None = None
        """What to do with the next COMMIT; None again once it is done."""
        self.cuts = 0
        """How often it was done."""
        self.flows = asyncio.Event()
        """While it is not set nothing passes, and nobody is told."""
        self.flows.set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Proxy"]:
        """Serve until the end of the block."""
        listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = listener.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            listener.close()
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)

    def drop(self) -> None:
        """Cut every connection there is, as a server does that restarts."""
        for connection in self._connections:
            connection.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        there = await asyncio.open_connection("127.0.0.1", self._server_port)
        pumps = {
            asyncio.create_task(self._pump(reader, there[1], from_client=True)),
            asyncio.create_task(self._pump(there[0], writer, from_client=False)),
        }
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pass  # The end of the block: all that is left is to close.
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for end in (writer, there[1]):
                end.transport.abort()
            self._connections.discard(task)

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, from_client: bool
    ) -> None:
        """Pass bytes on until an end, or until a cut is due."""
        due, sign = (Cut.BEFORE, ASKED) if from_client else (Cut.AFTER, ANSWERED)
        while data := await source.read(1 << 16):
            if from_client and self.cut is Cut.NEVER and ASKED in data:
                self.cut = None
                self.flows.clear()
            if self.cut is due and sign in data:
                self.cut = None
                self.cuts += 1
                return
            await self.flows.wait()
            target.write(data)
            await target.drain()
