"""What the tests of the commands share."""

from __future__ import annotations

import pytest

from tests.surface.cli.calling import Dispatch, Done


@pytest.fixture
def dispatch(capsys: pytest.CaptureFixture[str]) -> Dispatch:
    """Calls `airflow dispatch ...` in this process."""
    from airflow.cli.cli_parser import get_parser

    def call(*words: str) -> Done:
        capsys.readouterr()
        code = 0
        try:
            args = get_parser().parse_args(["dispatch", *words])
            args.func(args)
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Done(code, *capsys.readouterr())

    return call
