"""Cancels a job and watches the cancel take effect, telling what is true outside at each step.

The cancel is on record before anything else happens, and is final. [cancel-final] Who stops what
runs is a supervisor, not this command: so it watches for a while whether one does, and says so
plainly where none is there.
"""

from __future__ import annotations

from collections.abc import Callable

from airflow_dispatch.cli import explanation, facts, reading, words
from airflow_dispatch.cli.exits import Exit
from airflow_dispatch.cli.standing import Standing
from airflow_dispatch.core.record import OutcomeState, Record
from airflow_dispatch.core.status import Receipt
from airflow_dispatch.supervisor import acts
from airflow_dispatch.supervisor.services import Services

LOOK_SECONDS = 0.5

Say = Callable[[str], None]


async def cancel(
    services: Services, record: Record, *, actor: str, reason: str, seconds: float, say: Say
) -> Exit:
    """Commit the cancel unless there is an outcome, then watch it for `seconds` at most."""
    job = words.job(record.state.key)
    there = record.state.outcome is not None
    if not there:
        record = await acts.cancel(services, record.state.key, actor=actor, reason=reason)
    outcome = record.state.outcome
    if outcome is None or outcome.state is not OutcomeState.CANCELLED:
        say(f"{job} has ended already, {facts.outcome_words(outcome)}: nothing was changed.")
        return Exit.NOTHING_DONE
    when = "already, " if there else ""
    told = f"{job}: {outcome} ({when}at revision {record.state.outcome_revision})"
    say(words.clean(f"{told}. Nothing of it will be started any more."))
    return await _watch(services, record, seconds=seconds, say=say)


async def _watch(services: Services, record: Record, *, seconds: float, say: Say) -> Exit:
    """Tell each step of the receipt until it is complete or the time is over."""
    until = services.clock.monotonic() + seconds
    told = Receipt.COMMITTED
    while True:
        standing = await reading.standing(services, await reading.again(services, record.state.key))
        if standing.status.receipt is not told:
            told = standing.status.receipt
            say(f"The cancel is {facts.RECEIPTS[told]}.")
        if told is Receipt.COMPLETE:
            return Exit.OK
        left = until - services.clock.monotonic()
        if left <= 0:
            return _left(standing, record, seconds=seconds, say=say)
        await services.clock.sleep(min(LOOK_SECONDS, left))


def _left(standing: Standing, committed: Record, *, seconds: float, say: Say) -> Exit:
    """What is still going on outside, who ends it, and whether anybody does."""
    for one in standing.alive:
        host = f" on {one.latest.host}" if one.latest is not None and one.latest.host else ""
        say(words.clean(f"Object {one.id} was {one.phase.value}{host} when last looked at."))
    if standing.record.revision > committed.revision or (standing.held and not seconds):
        say(f"It is being seen to: {words.clean(facts.attended_words(standing))}.")
        return Exit.OK
    silent = f"In {seconds:g} s nobody has acted on the cancel" if seconds else "Nobody is there"
    who = words.clean(facts.attended_words(standing))
    say(f"{silent} (attended: {who}). What runs goes on until somebody does:")
    say(f"{explanation.START_ONE}.")
    return Exit.ATTENTION
