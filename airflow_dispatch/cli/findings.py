"""What is wrong with jobs right now: what `airflow dispatch check` finds, each with what to do.

A check is for monitoring: it finds what will not mend itself. A wait that ends by itself is none of
it, however long; `explain` tells of those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from airflow_dispatch.cli import advice, words
from airflow_dispatch.cli.explanation import START_ONE
from airflow_dispatch.cli.standing import Standing
from airflow_dispatch.core.codec import Json
from airflow_dispatch.core.status import Receipt
from airflow_dispatch.core.steps import WAITS, WaitKind


class Kind(str, Enum):
    """What was found."""

    CANCEL_UNSERVED = "cancel_unserved"
    """A cancel is committed, something of the job may run, and nobody is there to stop it."""
    UNATTENDED = "unattended"
    """An open job without a supervisor."""
    FOREIGN = "foreign"
    """An object that bears the mark of a job and is not its own."""
    PERSON = "person"
    """The job waits for a person."""


FOR_A_PERSON = (WaitKind.UNMATCHED, WaitKind.ASKED)
"""Waits that nothing but a person ends. (Foreign objects are found by themselves.)"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that somebody has to look at."""

    kind: Kind
    digest: str
    job: str
    what: str
    act: str

    def row(self) -> dict[str, Json]:
        """The finding for programs."""
        return {
            "kind": self.kind.value,
            "digest": self.digest,
            "job": self.job,
            "what": self.what,
            "act": self.act,
        }

    def row_for_people(self) -> dict[str, str]:
        """The finding for people."""
        return {
            "finding": self.kind.value,
            "job": words.clean(self.job),
            "what": words.clean(self.what),
            "what to do": words.clean(self.act),
        }


def of(standings: Sequence[Standing]) -> list[Finding]:
    """All findings, in the order of the jobs."""
    return [finding for standing in standings for finding in _of(standing)]


def _of(standing: Standing) -> Iterator[Finding]:
    yield from _unattended(standing)
    for known in standing.foreign:
        yield _finding(
            standing,
            Kind.FOREIGN,
            f"object {known.id} ({known.phase.value}) bears the mark of this job, but of no start"
            " that its record knows",
            advice.WAITS[WaitKind.FOREIGN].act,
        )
    for one in standing.status.waits:
        if one.kind in FOR_A_PERSON:
            detail = f" ({one.detail})" if one.detail else ""
            yield _finding(
                standing,
                Kind.PERSON,
                f"it waits for {WAITS[one.kind].text}{detail}",
                advice.WAITS[one.kind].act,
            )


def _unattended(standing: Standing) -> Iterator[Finding]:
    if not standing.status.unattended:
        return
    since = f"since {words.moment(standing.since)}"
    if standing.status.receipt in (Receipt.COMMITTED, Receipt.STOPPING):
        what = f"its cancel is committed and nobody has looked after it {since}"
        yield _finding(
            standing, Kind.CANCEL_UNSERVED, f"{what}: what runs may go on", f"{START_ONE}, at once"
        )
    else:
        what = f"it is {standing.status.stage.value} and nobody has looked after it {since}"
        yield _finding(standing, Kind.UNATTENDED, f"{what}; what runs goes on", START_ONE)


def _finding(standing: Standing, kind: Kind, what: str, act: str) -> Finding:
    return Finding(kind, standing.digest, words.job(standing.key), what, act)
