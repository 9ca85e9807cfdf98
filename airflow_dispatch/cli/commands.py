"""What each command does: read through the services, make its page, print it, give the exit code.

Every failure that has a name of ours comes out as one sentence on stderr and exit code 1, without a
traceback; a defect keeps its traceback. Looking needs the database only; nothing here waits for a
cluster.
"""

from __future__ import annotations

import asyncio
import logging
from argparse import Namespace
from collections.abc import Awaitable, Callable
from functools import wraps

from airflow.exceptions import AirflowConfigException
from airflow.utils.cli import action_cli, suppress_logs_and_warning
from airflow.utils.platform import getuser
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_dispatch.cli import (
    cancelling,
    diagnosis,
    document,
    explanation,
    facts,
    findings,
    keys,
    output,
    reading,
    rows,
    silence,
    supervising,
    words,
)
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.core.record import OutcomeState, Record
from airflow_dispatch.errors import DispatchError, InvalidConfiguration
from airflow_dispatch.ports.store import Filter
from airflow_dispatch.supervisor.services import Services
from airflow_dispatch.surface import runtime
from airflow_dispatch.surface.connections import DirectConnections
from airflow_dispatch.surface.journal import LogJournal

log = logging.getLogger("airflow_dispatch.daemon")

Main = Callable[[Services, Namespace], Awaitable[Exit]]
Entry = Callable[[Namespace], None]


def command(main: Main) -> Entry:
    """The edge of a command: services around it, errors turned into a sentence, the exit code."""

    async def served(args: Namespace) -> Exit:
        async with runtime.opened(DirectConnections()) as made:
            return await main(
                made.services(owner=runtime.owner("cli"), journal=silence.Silence()), args
            )

    @suppress_logs_and_warning
    @providers_configuration_loaded
    @wraps(main)
    def entry(args: Namespace) -> None:
        leave(lambda: asyncio.run(served(args)))

    return entry


def leave(work: Callable[[], Exit]) -> None:
    """Do the work and end the process with its exit code, if that is not 0."""
    try:
        code = work()
        output.flush()
    except DispatchError as error:
        output.aside(f"airflow dispatch: {words.clean(str(error))}")
        code = Exit.ERROR
    except BrokenPipeError:  # Whoever read the answer has read enough.
        output.silence()
        code = Exit.ERROR
    if code is not Exit.OK:
        raise SystemExit(int(code))


# --- looking --------------------------------------------------------------------------------------


@command
async def list_jobs(services: Services, args: Namespace) -> Exit:
    """`airflow dispatch list`."""
    wanted = Filter(
        dag_id=args.dag_id,
        task_id=args.task_id,
        run_id=args.run_id,
        cluster=args.cluster,
        settled=False if args.open or args.unattended else None,
        outcome=OutcomeState(args.outcome) if args.outcome else None,
    )
    # Whether a job is attended is known of no query, so the limit cannot be the query's then.
    limit = None if args.unattended else args.limit + 1
    unreadable: list[str] = []
    records = await reading.every(services, wanted, limit=limit, unreadable=unreadable)
    found = await reading.standings(services, records, unreadable=unreadable)
    if args.unattended:
        found = [standing for standing in found if standing.status.unattended]
    shown = found[: args.limit]
    if args.output in output.FOR_PROGRAMS:
        output.document([rows.listed(standing) for standing in shown], args.output)
    else:
        output.rows([rows.listed_for_people(standing) for standing in shown], args.output)
    if len(found) > len(shown):
        output.aside(f"There are more than these {args.limit}: --limit shows more of them.")
    return _told(unreadable) or Exit.OK


@command
async def show(services: Services, args: Namespace) -> Exit:
    """`airflow dispatch show`."""
    standing = await reading.standing(services, await _meant(services, args))
    if args.output in output.FOR_PROGRAMS:
        output.document(document.of(standing), args.output)
    else:
        output.rows(facts.rows(standing), args.output)
    return Exit.OK


@command
async def history(services: Services, args: Namespace) -> Exit:
    """`airflow dispatch history`."""
    record = await _meant(services, args)
    entries = await reading.history(services, record.state.key)
    if args.output in output.FOR_PROGRAMS:
        output.document([rows.entry(one) for one in entries], args.output)
    else:
        output.rows([rows.entry_for_people(one) for one in entries], args.output)
    return Exit.OK


@command
async def explain(services: Services, args: Namespace) -> Exit:
    """`airflow dispatch explain`."""
    standing = await reading.standing(services, await _meant(services, args))
    if args.output in output.FOR_PROGRAMS:
        output.document(explanation.of(standing), args.output)
    else:
        output.lines(explanation.lines(standing))
    return Exit.OK


@command
async def check(services: Services, args: Namespace) -> Exit:
    """`airflow dispatch check`."""
    unreadable: list[str] = []
    records = await reading.every(services, Filter(settled=False), unreadable=unreadable)
    found = findings.of(await reading.standings(services, records, unreadable=unreadable))
    if args.output in output.FOR_PROGRAMS:
        output.document([finding.row() for finding in found], args.output)
    elif found:
        output.rows([finding.row_for_people() for finding in found], args.output)
    elif not unreadable:
        output.lines([f"Nothing to see to: {words.count(len(records), 'open job')}."])
    return _told(unreadable) or (Exit.ATTENTION if found else Exit.OK)


@suppress_logs_and_warning
@providers_configuration_loaded
def doctor(args: Namespace) -> None:
    """`airflow dispatch doctor`: without services, because it is to say why there are none."""
    from airflow_dispatch.cli import examining  # noqa: PLC0415 - half of Airflow, for this one only

    def work() -> Exit:
        lines = asyncio.run(examining.examine(args.connections))
        if args.output in output.FOR_PROGRAMS:
            output.document([line.row() for line in lines], args.output)
        else:
            output.rows([line.row_for_people() for line in lines], args.output)
        return diagnosis.verdict(lines)

    leave(work)


# --- acting ---------------------------------------------------------------------------------------


@action_cli(check_db=False)  # type: ignore[no-untyped-call, untyped-decorator]  # Airflow's own
@command
async def cancel(services: Services, args: Namespace) -> Exit:
    """`airflow dispatch cancel`."""
    record = await _meant(services, args)
    job = words.job(record.state.key)
    if record.state.outcome is None and not args.yes:
        output.lines([f"This stops the run of {job} for good, and its task fails."])
        if not await asyncio.to_thread(_confirmed):
            output.lines(["Declined: nothing was changed."])
            return Exit.NOTHING_DONE
    seconds = services.settings.poll_seconds + 10 if args.wait is None else max(0.0, args.wait)
    return await cancelling.cancel(
        services,
        record,
        actor=_person(),
        reason=args.reason or "cancelled on the command line",
        seconds=seconds,
        say=lambda text: output.lines([text]),
    )


@providers_configuration_loaded
def supervise(args: Namespace) -> None:
    """`airflow dispatch supervise`."""

    async def served() -> Exit:
        async with runtime.opened(DirectConnections()) as made:
            owner = runtime.owner("daemon")
            services = made.services(owner=owner, journal=LogJournal(log))
            seconds = services.settings.poll_seconds if args.interval is None else args.interval
            return await supervising.serve(services, interval_seconds=seconds, once=args.once)

    leave(lambda: asyncio.run(served()))


# --- what several of them need --------------------------------------------------------------------


async def _meant(services: Services, args: Namespace) -> Record:
    reference = keys.parse(args.key, map_index=args.map_index, generation=args.generation)
    return await reading.find(services, reference)


def _told(unreadable: list[str]) -> Exit | None:
    """Say which records cannot be read here: somebody has to see to them, and the others stand."""
    for one in unreadable:
        output.aside(f"airflow dispatch: {words.clean(one)}")
    return Exit.ATTENTION if unreadable else None


def _person() -> str:
    """Who acts, as the system knows them."""
    try:
        return f"person:{getuser()}"
    except AirflowConfigException as error:
        raise InvalidConfiguration(f"{error} Nothing was changed") from error


def _confirmed() -> bool:
    try:
        return input("Go on? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:  # Nobody is there to ask.
        return False
