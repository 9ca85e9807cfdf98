"""The codec writes down everything that there is, and reads back exactly that."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_dispatch.core import codec
from airflow_dispatch.core.commits import KINDS, Body
from airflow_dispatch.core.job import Job
from airflow_dispatch.core.record import State
from airflow_dispatch.errors import UnreadableRecord
from tests.property import strategies


def test_every_kind_of_commit_is_drawn() -> None:
    """A kind without a strategy would be a kind without a test."""
    assert list(strategies.bodies) == list(KINDS)


@pytest.mark.parametrize("kind", list(KINDS), ids=[kind for kind, _ in KINDS.values()])
@given(data=st.data())
def test_bodies_are_read_as_they_were_written(kind: type[Body], data: st.DataObject) -> None:
    """Each kind, with every member of every union in it, as plain ASCII."""
    body = data.draw(strategies.bodies[kind])
    name, text = codec.encode_body(body)
    assert name == KINDS[kind][0]
    assert text.isascii()
    assert codec.decode_body(name, text) == body


@given(strategies.states)
def test_states_are_read_as_they_were_written(state: State) -> None:
    """Also states that no history makes: the codec judges nothing."""
    text = codec.encode_state(state)
    assert codec.decode_state(text) == state
    assert codec.encode_state(codec.decode_state(text)) == text


@given(strategies.jobs)
def test_jobs_are_read_as_they_were_written(job: Job) -> None:
    """The description that an operator hands to its trigger."""
    assert codec.decode_job(codec.encode_job(job)) == job


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["v", "is", "state", "body", "job", "x"]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


@given(JSON, st.sampled_from([kind for kind, _ in KINDS.values()]))
def test_what_is_no_record_is_refused_in_one_way(value: object, kind: str) -> None:
    """Any JSON: unreadable, never another error, and never half a value."""
    text = json.dumps(value)
    for read in (codec.decode_state, codec.decode_job):
        with pytest.raises(UnreadableRecord):
            read(text)
    wrapped = json.dumps({"v": codec.VERSION, "body": value})
    try:
        read_body = codec.decode_body(kind, wrapped)
    except UnreadableRecord:
        return
    assert codec.decode_body(*codec.encode_body(read_body)) == read_body
