"""The conformance suite of the Store port: what every store must do, as pytest tests.

Subclass `StoreSuite` in a test module and give it three fixtures:

- `store`: the store under test, a fresh or a used one (every test makes keys of its own);
- `another`: a second client of the same records, with connections of its own where it has any;
- `pass_time`: a coroutine function that returns after the store's clock moved on by so many
  seconds.

A store whose reply can get lost on the way also subclasses `LostReplySuite`, with one fixture more:

- `lose_reply`: a function that makes the next write through `store` lose its reply, after it landed
  (`landed=True`) or before it could.

The tests are coroutines; with pytest-asyncio in strict mode the fixtures need its decorator. For
readable failures call `pytest.register_assert_rewrite("airflow_dispatch.testing")`
before you import this.
"""

from __future__ import annotations

import pytest

from airflow_dispatch.core import folding
from airflow_dispatch.core.commits import (
    Cancelled,
)
from airflow_dispatch.errors import StoreUnavailable
from airflow_dispatch.ports.store import (
    Conflict,
    Lease,
    Store,
    Stored,
    Unknown,
)
from airflow_dispatch.testing.store_records import Committing, Creating, Remembering
from airflow_dispatch.testing.store_samples import (
    LoseReply,
    adopted,
    begun,
    committed,
    made,
    new_key,
)
from airflow_dispatch.testing.store_uses import Carrying, Listing, Owning


class StoreSuite(Creating, Committing, Remembering, Owning, Listing, Carrying):
    """All of it, for a store whose replies arrive."""


@pytest.mark.asyncio
class LostReplySuite:
    """A write whose reply got lost is Unknown, and the next read tells what became of it."""

    @pytest.mark.parametrize("landed", [True, False], ids=["landed", "did not land"])
    async def test_a_commit_of_unknown_fate(
        self, store: Store, another: Store, lose_reply: LoseReply, *, landed: bool
    ) -> None:
        """Its id is in the history if it landed; sent again at its base it is Stored, once."""
        base = await made(store)
        commit = adopted(base)
        lose_reply(landed=landed)
        assert isinstance(await store.commit(base, commit), Unknown)
        ids = [entry.commit.id for entry in await another.history(base.state.key)]
        assert (commit.id in ids) is landed
        expected = folding.apply(base, commit)
        assert await store.load(base.state.key) == (expected if landed else base)
        assert await store.commit(base, commit) == Stored(expected)
        assert len(await another.history(base.state.key)) == 2

    @pytest.mark.parametrize("landed", [True, False], ids=["landed", "did not land"])
    async def test_a_creation_of_unknown_fate(
        self, store: Store, another: Store, lose_reply: LoseReply, *, landed: bool
    ) -> None:
        """The record is there if the first commit landed; sent again it is Stored in both cases."""
        key = await new_key(store)
        first = begun(key)
        lose_reply(landed=landed)
        assert isinstance(await store.create(first), Unknown)
        record = folding.begin(first)
        assert await another.load(key) == (record if landed else None)
        assert await store.create(first) == Stored(record)
        assert await another.load(key) == record

    @pytest.mark.parametrize("landed", [True, False], ids=["landed", "did not land"])
    async def test_a_claim_of_unknown_fate(
        self, store: Store, another: Store, lose_reply: LoseReply, *, landed: bool
    ) -> None:
        """A claim cannot say Unknown: it raises, and claiming again gives a lease in both cases."""
        key = (await made(store)).state.key
        lose_reply(landed=landed)
        with pytest.raises(StoreUnavailable):
            await store.claim(key, "one", seconds=30)
        held = await another.owner(key)
        assert (held is not None) is landed
        lease = await store.claim(key, "one", seconds=30)
        assert isinstance(lease, Lease)
        assert lease.epoch == (2 if landed else 1)

    async def test_a_late_landing_defeats_nobody(
        self, store: Store, another: Store, lose_reply: LoseReply
    ) -> None:
        """When it did not land and another writer went on, sending it again is a conflict."""
        base = await made(store)
        commit = adopted(base)
        lose_reply(landed=False)
        assert isinstance(await store.commit(base, commit), Unknown)
        newer = await committed(another, base, Cancelled("enough"))
        assert await store.commit(base, commit) == Conflict()
        assert await store.load(base.state.key) == newer
