"""Prints rows and documents in the formats that Airflow's commands have: table, plain, json, yaml.

Tables are Airflow's own. JSON and YAML keep their types, which Airflow's printing would turn into
text, and come alone on stdout, so that a program can read them; everything else that is to be said
goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from airflow.cli.simple_table import AirflowConsole
from airflow.utils import yaml

from airflow_dispatch.core.codec import Json

FOR_PROGRAMS = ("json", "yaml")


def rows(found: Sequence[dict[str, str]], output: str) -> None:
    """Rows for people, as `table` or `plain`."""
    # Brackets and colons in names are names, no styles and no emoji.
    AirflowConsole(markup=False, emoji=False).print_as(list(found), output)


def document(value: Json, output: str) -> None:
    """A value for programs, as `json` or `yaml`."""
    if output == "json":
        print(json.dumps(value, indent=2))
    else:
        print(yaml.dump(value, sort_keys=False, default_flow_style=False), end="")


def lines(texts: Sequence[str]) -> None:
    """Sentences for people."""
    for text in texts:
        print(text, flush=True)


def aside(text: str) -> None:
    """A sentence that is no part of the answer."""
    print(text, file=sys.stderr, flush=True)


def flush() -> None:
    """Hand everything over now; raises `BrokenPipeError` if nobody reads it."""
    sys.stdout.flush()


def silence() -> None:
    """Print nothing more: what is left would only fail again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
