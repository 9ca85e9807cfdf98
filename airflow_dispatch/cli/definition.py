"""The commands as Airflow's parser wants them: names, arguments, help.

Airflow imports this module on every call of its command line, whatever the command is. So it knows
only the parser's own words; what a command does is imported when it is called.
"""

from __future__ import annotations

from typing import Any

from airflow.cli.cli_config import (
    ARG_OUTPUT,
    ARG_VERBOSE,
    ARG_YES,
    ActionCommand,
    Arg,
    CLICommand,
    GroupCommand,
    lazy_load_command,
    positive_int,
)

COMMANDS = "airflow_dispatch.cli.commands"
OUTCOMES = ("succeeded", "failed", "cancelled")

EPILOG = (
    "KEY names a job: the start of its digest as `list` shows it (6 digits at least), or"
    " `DAG_ID TASK_ID RUN_ID`, with --map-index for a mapped task and --generation for an earlier"
    " one than the newest. Exit codes: 0 done; 1 it could not be done, stderr says why; 2 the"
    " command line is wrong; 3 done, and somebody has to look; 4 nothing to do, or declined."
)

POSITIVE = positive_int(allow_zero=False)  # type: ignore[no-untyped-call]  # Airflow's own


def _arg(*flags: str, **options: Any) -> Arg:
    return Arg(flags, **options)  # type: ignore[no-untyped-call]  # Airflow's own


ARG_KEY = _arg(
    "key",
    nargs="+",
    metavar="KEY",
    help="Start of the job's digest, or DAG_ID TASK_ID RUN_ID",
)
ARG_MAP_INDEX = _arg("--map-index", type=int, help="Index of a mapped task")
ARG_GENERATION = _arg(
    "--generation",
    type=POSITIVE,
    help="An earlier generation of the task's job (default: the newest)",
)
KEY = (ARG_KEY, ARG_MAP_INDEX, ARG_GENERATION)

ARG_DAG_ID = _arg("-d", "--dag-id", help="Only jobs of this DAG")
ARG_TASK_ID = _arg("-t", "--task-id", help="Only jobs of tasks with this id")
ARG_RUN_ID = _arg("-r", "--run-id", help="Only jobs of DAG runs with this id")
ARG_CLUSTER = _arg("-c", "--cluster", help="Only jobs on this cluster (an Airflow connection id)")
ARG_OPEN = _arg("--open", action="store_true", help="Only jobs that are not settled")
ARG_OUTCOME = _arg(
    "--outcome",
    choices=OUTCOMES,
    metavar=f"({', '.join(OUTCOMES)})",
    help="Only jobs that ended so",
)
ARG_UNATTENDED = _arg(
    "--unattended", action="store_true", help="Only open jobs that nobody looks after"
)
ARG_LIMIT = _arg(
    "--limit",
    type=POSITIVE,
    default=100,
    help="At most so many jobs, the newest first (default: 100)",
)
ARG_REASON = _arg("--reason", default="", help="Why, for the record and the task's log")
ARG_WAIT = _arg(
    "--wait",
    type=float,
    help="Seconds to watch the cancel take effect"
    " (default: 10 more than [dispatch] poll_seconds; 0: do not watch)",
)
ARG_INTERVAL = _arg(
    "--interval",
    type=float,
    help="Seconds between two rounds (default: [dispatch] poll_seconds)",
)
ARG_ONCE = _arg("--once", action="store_true", help="End as soon as a round moves nothing any more")
ARG_CONNECTIONS = _arg(
    "connections",
    nargs="*",
    metavar="CONNECTION",
    help="Connections to look at (default: every one that Airflow can list, and every one that an"
    " open job names)",
)


def get_dispatch_cli_commands() -> list[CLICommand]:
    """What the provider info names under `cli`."""
    return [
        GroupCommand(
            name="dispatch",
            help="Look at and act on the jobs of airflow-dispatch",
            description="Look at and act on the jobs of airflow-dispatch.",
            epilog=EPILOG,
            subcommands=(*_looking(), *_acting(), *_checking()),
        )
    ]


def _looking() -> tuple[ActionCommand, ...]:
    filters = (ARG_DAG_ID, ARG_TASK_ID, ARG_RUN_ID, ARG_CLUSTER)
    states = (ARG_OPEN, ARG_OUTCOME, ARG_UNATTENDED)
    return (
        _command("list", "List jobs", (*filters, *states, ARG_LIMIT, ARG_OUTPUT)),
        _command("show", "Show all that is on record of one job", (*KEY, ARG_OUTPUT)),
        _command("history", "Show each commit of a job's record", (*KEY, ARG_OUTPUT)),
        _command("explain", "Say what a job waits for, and what to do", (*KEY, ARG_OUTPUT)),
    )


def _acting() -> tuple[ActionCommand, ...]:
    return (
        _command(
            "cancel", "Cancel a job: stop its run for good", (*KEY, ARG_REASON, ARG_YES, ARG_WAIT)
        ),
        _command(
            "supervise",
            "Look after every job that no triggerer looks after",
            (ARG_INTERVAL, ARG_ONCE),
        ),
    )


def _checking() -> tuple[ActionCommand, ...]:
    return (
        _command("check", "Find jobs that somebody has to see to, for monitoring", (ARG_OUTPUT,)),
        _command(
            "doctor",
            "Examine settings, database and clusters of this installation",
            (ARG_CONNECTIONS, ARG_OUTPUT),
        ),
    )


def _command(name: str, what: str, args: tuple[Arg, ...]) -> ActionCommand:
    return ActionCommand(
        name=name,
        help=what,
        description=f"{what}.",
        epilog=EPILOG if ARG_KEY in args else None,
        func=lazy_load_command(f"{COMMANDS}.{'list_jobs' if name == 'list' else name}"),
        args=(*args, ARG_VERBOSE),
    )
