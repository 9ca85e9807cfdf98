"""The Clock port: the supervisor's own time.

It stamps commits for people and sleeps; nothing is compared with it.

Deadlines compare cluster times and leases the store's time, because a supervisor's clock may be
wrong.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time and waiting."""

    def now(self) -> datetime:
        """Aware UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards, for pacing."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after at least `seconds`."""
        ...
