"""`news(record, view)`: what a Find shows that the record does not hold yet.

An unchanged sighting commits nothing, so that a quiet job costs no commit and two supervisors that
look at the same world do not conflict. A sighting that newly meets a condition counts as changed:
an object that was judged gone or lost and is shown again, or anything alive after the job was
quiet.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from airflow_dispatch import limits
from airflow_dispatch.core.commits import Sight, Sighted
from airflow_dispatch.core.folding import join_sight
from airflow_dispatch.core.record import Record, State
from airflow_dispatch.core.view import View


def news(record: Record, view: View) -> Sighted | None:
    """The evidence to file, or None.

    At most `limits.OBJECTS_MAX` objects of one record are followed.
    """
    state = record.state
    new = [sight for sight in view.of(state.key) if _is_news(state, sight, view.began)]
    room = max(limits.OBJECTS_MAX - len(state.objects), 0)  # Replies make objects known, too.
    unknown = [sight for sight in new if state.object(sight.id) is None][room:]
    kept = tuple(sight for sight in new if sight not in unknown)
    return Sighted(view.began, kept) if kept else None


def _is_news(state: State, sight: Sight, began: datetime) -> bool:
    known = state.object(sight.id)
    if known is None or known.gone or known.lost:
        return True
    if state.quiet_at is not None and not sight.idle and began > state.quiet_at:
        return True
    joined = join_sight(known, sight, began)
    return replace(joined, shown_at=known.shown_at) != known
