"""The Clock port: this machine's clock and the event loop's sleep.

What it says goes to people and paces waits. Deadlines compare the cluster's times and leases the
database's, because this clock may be wrong.
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timezone


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Aware UTC."""
        return datetime.now(timezone.utc)

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return after at least `seconds`."""
        await asyncio.sleep(seconds)
