"""The Secrets port: references into values, at the moment a start is sent and never before.

Values go to the adapter's delivery and to the masking of output; they are in no record, argument or
log.
"""

from __future__ import annotations

from typing import Protocol


class Secrets(Protocol):
    """Resolves references such as `connection:NAME` or `variable:NAME`."""

    async def resolve(self, reference: str) -> str:
        """The value; raises `InvalidConfiguration` where there is none."""
        ...
