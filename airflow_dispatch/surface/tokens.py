"""The Tokens port: random ids from the operating system.

Nothing is derived from time, host or process, so that two supervisors on cloned machines never draw
the same one.
"""

from __future__ import annotations

import secrets


class SystemTokens:
    """128 random bits for each."""

    def fresh(self) -> str:
        """32 lower-case hexadecimal digits."""
        return secrets.token_hex(16)
