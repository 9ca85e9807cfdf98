"""Calls of `airflow dispatch ...` inside a test's own process, through Airflow's own parser."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its stdout as a program reads it."""
        return json.loads(self.out)


Dispatch = Callable[..., Done]
