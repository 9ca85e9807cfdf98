"""The Tokens port: randomness, for commit ids, tags and owners."""

from __future__ import annotations

from typing import Protocol


class Tokens(Protocol):
    """Random ids that never repeat."""

    def fresh(self) -> str:
        """32 lower-case hexadecimal digits."""
        ...
