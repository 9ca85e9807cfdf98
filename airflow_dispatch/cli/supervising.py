"""Runs the daemon for `airflow dispatch supervise`, and says what it does and what is left.

With `once` it ends as soon as a round moves nothing any more: what then still waits, for a run to
end or for a person, is no failure; a job that could not be moved is.
"""

from __future__ import annotations

from airflow_dispatch import __version__
from airflow_dispatch.cli import words
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.errors import InvalidConfiguration
from airflow_dispatch.ports.journal import Level
from airflow_dispatch.supervisor.services import Services
from airflow_dispatch.surface.daemon import Daemon, ended_by_signals

INTERVAL_SECONDS_MIN = 0.1
INTERVAL_SECONDS_MAX = 3600.0


async def serve(services: Services, *, interval_seconds: float, once: bool) -> Exit:
    """Supervise until a signal comes, or until nothing moves any more."""
    if not INTERVAL_SECONDS_MIN <= interval_seconds <= INTERVAL_SECONDS_MAX:
        raise InvalidConfiguration(
            f"--interval {interval_seconds:g} must be a number of seconds from"
            f" {INTERVAL_SECONDS_MIN:g} to {INTERVAL_SECONDS_MAX:g}"
        )
    health = await services.store.health()
    deployment = await services.store.deployment()
    pace = "until nothing moves" if once else f"every {interval_seconds:g} s"
    tell = services.journal.tell
    tell(
        Level.INFO,
        f"{services.owner} (airflow-dispatch {__version__}) looks after the jobs of deployment"
        f" {deployment} (schema {health.schema}) that nobody else looks after, {pace}.",
    )
    daemon = Daemon(services, interval_seconds=interval_seconds)
    with ended_by_signals(daemon):
        if not once:
            await daemon.run()
            tell(Level.INFO, "Ended as asked: what runs goes on, and I look after it no longer.")
            return Exit.OK
        total = await daemon.until_nothing_moves()
    seen, failed = words.count(total.seen, "job"), len(total.failed)
    tell(Level.INFO, f"Nothing moves any more: {seen} looked after, {failed} of them failed.")
    return Exit.ATTENTION if failed else Exit.OK
