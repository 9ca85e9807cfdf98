"""The exit codes of `airflow dispatch ...`; `docs/reference/cli.md` has them by command.

Scripts and monitoring rely on them, so a code keeps its meaning for ever.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What a command came to, for whoever called it."""

    OK = 0
    ERROR = 1
    """It could not be done or could not be told; a sentence on stderr says why."""
    USAGE = 2
    """The command line itself is wrong; argparse says how."""
    ATTENTION = 3
    """Done, and somebody has to look: a job without a supervisor, a check that failed."""
    NOTHING_DONE = 4
    """There was nothing to do, or it was declined; nothing was changed."""
