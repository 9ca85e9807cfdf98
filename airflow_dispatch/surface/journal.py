"""The Journal port: the story of a run, into a Python logger.

In a trigger that is the task's log: Airflow files what a trigger's coroutine logs with its task.
The run's own output comes in pieces cut anywhere; it is told in whole lines, as a terminal would
show them, without the characters that would move a reader's cursor.
"""

from __future__ import annotations

import logging
import re

from airflow_dispatch.ports.journal import Level

LINE_CHARS_MAX = 4_000
"""A longer line of output is told in parts."""

LEVELS = {
    Level.DEBUG: logging.DEBUG,
    Level.INFO: logging.INFO,
    Level.WARNING: logging.WARNING,
    Level.ERROR: logging.ERROR,
}
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", re.DOTALL)
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class LogJournal:
    """Tells everything to one logger; `prefix` goes before each line where many runs share it."""

    def __init__(self, logger: logging.Logger, *, prefix: str = "") -> None:
        self._logger = logger
        self._prefix = prefix
        self._rest = ""

    def tell(self, level: Level, text: str) -> None:
        """One line of the story."""
        self.flush()
        self._log(LEVELS[level], text)

    def output(self, text: str) -> None:
        """A piece of the run's output; its last, unfinished line is told once it is whole."""
        *whole, self._rest = (self._rest + text).split("\n")
        for line in whole:
            self._line(line)
        while len(self._rest) > LINE_CHARS_MAX:
            self._line(self._rest[:LINE_CHARS_MAX])
            self._rest = self._rest[LINE_CHARS_MAX:]

    def flush(self) -> None:
        """Tell what is left of the output, though its line is not whole."""
        rest, self._rest = self._rest, ""
        if rest:
            self._line(rest)

    def _line(self, line: str) -> None:
        """A line as a terminal would leave it: where text was overwritten, the last."""
        shown = ESCAPES.sub("", line).rstrip("\r").rpartition("\r")[2]
        shown = CONTROLS.sub("\N{REPLACEMENT CHARACTER}", shown)
        for start in range(0, max(len(shown), 1), LINE_CHARS_MAX):
            self._log(logging.INFO, shown[start : start + LINE_CHARS_MAX])

    def _log(self, level: int, text: str) -> None:
        self._logger.log(level, "%s%s", self._prefix, text)
