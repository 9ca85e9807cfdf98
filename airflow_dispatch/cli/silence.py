"""A journal that tells nothing.

Commands that look or act have words of their own on stdout; the story of a job is for the log of
its task and of the daemon.
"""

from __future__ import annotations

from airflow_dispatch.ports.journal import Level


class Silence:
    """See `ports.journal.Journal`."""

    def tell(self, level: Level, text: str) -> None:
        """Nothing."""

    def output(self, text: str) -> None:
        """Nothing."""
