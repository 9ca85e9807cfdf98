"""Looks at the installation for `airflow dispatch doctor`; `diagnosis` judges what is found here.

It goes on after each failure, so that one run tells all that is wrong. It launches nothing; what it
writes to a run root that is in use is one small file, which it takes away again. Limits of a
process are those of this very one: run it where the triggerer runs, and as its user.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from airflow.configuration import conf
from airflow.jobs.job import Job
from airflow.jobs.triggerer_job_runner import TriggererJobRunner
from airflow.models.connection import Connection
from airflow.utils.session import create_session
from sqlalchemy.exc import SQLAlchemyError

from airflow_dispatch.cli import diagnosis, reading
from airflow_dispatch.cli.diagnosis import Line, fail, ok, warn
from airflow_dispatch.cli.silence import Silence
from airflow_dispatch.clusters.local import settings as local
from airflow_dispatch.errors import DispatchError, InvalidConfiguration
from airflow_dispatch.ports.store import Filter
from airflow_dispatch.supervisor.services import Services
from airflow_dispatch.surface import clusters, configuration, options, runtime
from airflow_dispatch.surface.connections import DirectConnections, Values

ENVIRONMENT = "AIRFLOW_CONN_"
FREE_BYTES_WANTED = 1 << 30


async def examine(named: Sequence[str]) -> list[Line]:
    """All lines: options, database, clusters (those named, or every one to be found), host."""
    lines = [*_options(), _database_setting()]
    off: dict[str, timedelta] = {}
    try:
        made = runtime.make(DirectConnections())
    except DispatchError as error:
        return [*lines, fail("database", str(error), "mend the option that it names")]
    try:
        services = made.services(owner=runtime.owner("doctor"), journal=Silence())
        lines += await _store(services, off)
        try:
            names = named or await _connections(services)
        except SQLAlchemyError as error:
            names = ()
            lines.append(_silent("connections", error))
        for name in names:
            lines += await _cluster(services, name, off)
    finally:
        await made.close()
    try:
        lines += _triggerer()
    except SQLAlchemyError as error:
        lines.append(_silent("triggerer", error))
    return [*lines, diagnosis.clocks(off)]


def _silent(what: str, error: SQLAlchemyError) -> Line:
    """What could not be looked up in Airflow's own database, which another setting leads to."""
    said = " ".join(str(getattr(error, "orig", None) or error).split())
    return fail(
        what, f"Airflow's own database failed: {said}", "mend [database] sql_alchemy_conn or it"
    )


def _options() -> Iterator[Line]:
    wrong = False
    for option in options.OPTIONS:
        if option.kind is not options.Kind.TEXT:
            try:
                configuration.seconds(option)
            except DispatchError as error:
                wrong = True
                yield fail("options", str(error), "mend it, and restart what uses it")
    if not wrong:
        yield ok("options", f"the [{options.SECTION}] section is right")


def _database_setting() -> Line:
    ours = options.SQL_ALCHEMY_CONN
    own = str(conf.get(options.SECTION, ours.name, fallback="") or "").strip()
    return diagnosis.database_setting(
        _address(own),
        _address(conf.get("database", "sql_alchemy_conn")),
        given=ours.variable in os.environ,
    )


def _address(url: str) -> str:
    """The URL without driver, password and options."""
    if not url:
        return ""
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError:
        return "no URL"
    plain = parsed.set(drivername=parsed.get_backend_name(), query={})
    return plain.render_as_string(hide_password=True)


async def _store(services: Services, off: dict[str, timedelta]) -> list[Line]:
    try:
        health = await services.store.health()
        off["the database"] = _ahead(services, health.now)
        deployment = await services.store.deployment()
        records = await reading.every(services, Filter(settled=False))
    except DispatchError as error:
        return [fail("database", str(error), "mend what it names; nothing is launched meanwhile")]
    return [
        ok("database", f"it answers; the tables of dispatch have revision {health.schema}"),
        ok("deployment", deployment),
        ok("open jobs", f"{len(records)}; `airflow dispatch check` looks at each"),
    ]


def _ahead(services: Services, told: datetime) -> timedelta:
    """How far a clock that was read just now is ahead of this host's."""
    return told - services.clock.now()


async def _connections(services: Services) -> list[str]:
    """The clusters' connections that can be found: Airflow's table, environment, open jobs."""
    names = set(await asyncio.to_thread(_stored))
    for variable in os.environ:
        if variable.startswith(ENVIRONMENT):
            name = variable.removeprefix(ENVIRONMENT).lower()
            if await _is_cluster(name):
                names.add(name)
    with suppress(DispatchError):  # The line of the database says so.
        records = await reading.every(services, Filter(settled=False))
        names |= {record.state.cluster for record in records}
    return sorted(names)


def _stored() -> list[str]:
    wanted = sa.select(Connection.conn_id).where(Connection.conn_type.in_(clusters.kinds()))
    with create_session() as session:
        return [str(name) for name in session.scalars(wanted)]


async def _is_cluster(name: str) -> bool:
    try:
        return (await DirectConnections().read(name)).connection_type in clusters.kinds()
    except DispatchError:
        return False


async def _cluster(services: Services, name: str, off: dict[str, timedelta]) -> list[Line]:
    what = f"cluster {name}"
    try:
        values = await DirectConnections().read(name)
        cluster = await services.clusters.get(name)
    except InvalidConfiguration as error:
        return [fail(what, str(error), "mend it; no job is launched with it")]
    except DispatchError as error:
        return [fail(what, str(error), "mend what it names; nothing is launched there meanwhile")]
    try:
        found = await cluster.probe()
    except DispatchError as error:
        if await _never_used(services, name):
            return [_unused(what, values, error)]
        return [fail(what, str(error), "mend what it names; nothing is launched there meanwhile")]
    lines = [ok(what, f"{found.fingerprint} answers")]
    try:
        await cluster.probe(create=True)
        off[name] = _ahead(services, (await cluster.find(())).began)
    except DispatchError as error:
        lines.append(fail(what, str(error), "mend what it names; launches there are refused"))
    return [*lines, *_local(values)]


async def _never_used(services: Services, name: str) -> bool:
    try:
        return not await reading.every(services, Filter(cluster=name), limit=1)
    except DispatchError:
        return False


def _unused(what: str, values: Values, error: DispatchError) -> Line:
    """A cluster that does not answer, which is no wonder where no job has made its run root."""
    if values.connection_type == "dispatch_local":
        folder = Path(local.parse(values.name, values.settings).run_root)
        with suppress(OSError):  # What the cluster itself said of it tells more.
            if not folder.exists() or not any(folder.iterdir()):
                there = folder.parent.is_dir()
                return diagnosis.unused_root(what, str(folder), parent_there=there)
    return warn(what, f"no job has used it yet, and {error}", "see that this is meant")


def _local(values: Values) -> Iterator[Line]:
    """What only a local cluster has: its slots and the room in its run root."""
    if values.connection_type != "dispatch_local":
        return
    settings = local.parse(values.name, values.settings)
    yield ok(f"slots of {values.name}", f"{settings.slots} cpus for all its runs together")
    free = shutil.disk_usage(settings.run_root).free
    yield diagnosis.free_space(settings.run_root, free, FREE_BYTES_WANTED)


def _triggerer() -> Iterator[Line]:
    running = sa.select(Job).where(Job.job_type == TriggererJobRunner.job_type)
    with create_session() as session:
        jobs = session.scalars(running.order_by(Job.latest_heartbeat.desc()).limit(100)).all()
        alive = [f"{job.hostname} (job {job.id})" for job in jobs if job.is_alive()]
    yield diagnosis.triggerers(alive)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield diagnosis.open_files(soft, conf.getint("triggerer", "capacity"))
