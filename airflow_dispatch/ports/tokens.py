"""The Tokens port: randomness, for commit ids, tags and owners.

Nothing else in the layers that decide draws a random number, so that a simulator can replay a run.
"""

from __future__ import annotations

from typing import Protocol


class Tokens(Protocol):
    """Random ids that never repeat."""

    def fresh(self) -> str:
        """32 lower-case hexadecimal digits."""
        ...
