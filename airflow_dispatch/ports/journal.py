"""The Journal port: the story of a run, in lines for people.

It decides nothing and must never fail.

In a trigger it writes to the task's log, in the daemon to its own; nothing said here is a secret.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol


class Level(str, Enum):
    """How much a line matters."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Journal(Protocol):
    """Where the story goes."""

    def tell(self, level: Level, text: str) -> None:
        """One line about what was decided, seen or asked."""
        ...

    def output(self, text: str) -> None:
        """Lines that the run itself wrote."""
        ...
