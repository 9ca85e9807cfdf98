"""The part of the store suite about one record: how it is made, changed and remembered.

What a store must do here carries the safety argument: conditional commits, ids that are recognised,
loads that see what was acknowledged, and a history that only grows.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from airflow_dispatch.core import folding
from airflow_dispatch.core.commits import (
    Cancelled,
    Settled,
)
from airflow_dispatch.core.identity import JobKey
from airflow_dispatch.core.record import Record
from airflow_dispatch.errors import InvariantBroken
from airflow_dispatch.ports.store import (
    Conflict,
    Exists,
    Store,
    Stored,
)
from airflow_dispatch.testing.store_samples import (
    JOB,
    MOMENT,
    SETTLED,
    WRITERS,
    PassTime,
    adopted,
    begun,
    commit_of,
    committed,
    made,
    new_key,
)


@pytest.mark.asyncio
class Creating:
    """How a record comes to be, and how it is read."""

    async def test_what_was_created_is_loaded(self, store: Store, another: Store) -> None:
        """Every client loads the very record that its creator got, at revision 1."""
        record = await made(store)
        key = record.state.key
        assert record.revision == 1
        assert await store.load(key) == record
        assert await another.load(key) == record

    async def test_absence_is_a_value(self, store: Store) -> None:
        """A key without a record loads as None; there is no latest record, history or owner."""
        key = await new_key(store)
        assert await store.load(key) is None
        assert await store.latest(key.task) is None
        assert await store.history(key) == ()
        assert await store.owner(key) is None

    async def test_create_is_idempotent(self, store: Store, another: Store) -> None:
        """The same first commit again is Stored, for any client, and makes no second entry."""
        first = begun(await new_key(store))
        once = await store.create(first)
        assert await store.create(first) == once
        assert await another.create(first) == once
        assert isinstance(once, Stored)
        assert len(await store.history(once.record.state.key)) == 1

    async def test_create_again_after_more_commits(self, store: Store) -> None:
        """The first commit is still recognised when others have followed it."""
        first = begun(await new_key(store))
        created = await store.create(first)
        assert isinstance(created, Stored)
        await committed(store, created.record, Cancelled("enough"))
        assert await store.create(first) == created

    async def test_another_first_commit_finds_the_key_taken(self, store: Store) -> None:
        """Another first commit for the key is told that the record exists, and changes nothing."""
        record = await made(store)
        other = begun(record.state.key, replace(JOB, command=("false",)))
        assert await store.create(other) == Exists()
        assert await store.load(record.state.key) == record

    async def test_one_of_many_creators_wins(self, store: Store, another: Store) -> None:
        """Of creators at one moment exactly one is Stored, and its record is what is loaded."""
        key = await new_key(store)
        clients = itertools.cycle((store, another))
        found = await asyncio.gather(*(next(clients).create(begun(key)) for _ in range(8)))
        stored = [one for one in found if isinstance(one, Stored)]
        assert len(stored) == 1
        assert found.count(Exists()) == 7
        assert await store.load(key) == stored[0].record

    async def test_latest_is_the_highest_generation(self, store: Store, another: Store) -> None:
        """The latest record of a task has its highest generation, in whatever order made."""
        one = await new_key(store)
        mapped = replace(one.task, map_index=3)
        for key in (JobKey(one.task, 2), one, JobKey(mapped, 9), JobKey(one.task, 10)):
            await made(store, key)
        for client in (store, another):
            latest = await client.latest(one.task)
            assert latest is not None
            assert latest.state.key == JobKey(one.task, 10)

    async def test_the_deployment_id_stays(self, store: Store, another: Store) -> None:
        """All clients read one id, again and again."""
        assert len({await client.deployment() for client in (store, another, store)}) == 1

    async def test_health_tells_the_store_time(self, store: Store, pass_time: PassTime) -> None:
        """The clock of the store is aware, and goes on."""
        before = (await store.health()).now
        await pass_time(0.05)
        after = (await store.health()).now
        assert before.utcoffset() == timedelta(0)
        assert after - before >= timedelta(seconds=0.04)


@pytest.mark.asyncio
class Committing:
    """Commits are conditional on the revision that they were decided from."""

    async def test_a_commit_makes_the_next_revision(self, store: Store, another: Store) -> None:
        """What commit returns is the fold of the commit, and what every client loads next."""
        base = await made(store)
        commit = adopted(base)
        found = await store.commit(base, commit)
        assert found == Stored(folding.apply(base, commit))
        assert await another.load(base.state.key) == folding.apply(base, commit)

    async def test_of_two_writers_at_one_revision_one_wins(
        self, store: Store, another: Store
    ) -> None:
        """Exactly one of many writers at one revision is Stored; nothing else is written."""
        base = await made(store)
        commits = [adopted(base, step=n) for n in range(1, 9)]
        clients = itertools.cycle((store, another))
        found = await asyncio.gather(*(next(clients).commit(base, one) for one in commits))
        winners = [n for n, one in enumerate(found) if isinstance(one, Stored)]
        assert len(winners) == 1
        assert found.count(Conflict()) == 7
        history = await store.history(base.state.key)
        assert [entry.commit for entry in history[1:]] == [commits[winners[0]]]
        assert await store.load(base.state.key) == folding.apply(base, commits[winners[0]])

    async def test_a_stale_writer_meets_a_conflict(self, store: Store, another: Store) -> None:
        """A decision made on an older revision is refused, however late it comes."""
        base = await made(store)
        newer = await committed(another, base, Cancelled("enough"))
        for _ in range(2):
            assert await store.commit(base, adopted(base)) == Conflict()
        assert await store.load(base.state.key) == newer

    async def test_a_commit_makes_no_record(self, store: Store) -> None:
        """A commit to a record that is not there is a conflict, and leaves none behind."""
        record = folding.begin(begun(await new_key(store)))
        assert await store.commit(record, adopted(record)) == Conflict()
        assert await store.load(record.state.key) is None
        assert await store.history(record.state.key) == ()

    async def test_the_same_commit_again_is_recognised(self, store: Store, another: Store) -> None:
        """A commit sent again at its base is Stored as it was, and lands once only."""
        base = await made(store)
        commit = adopted(base)
        once = await store.commit(base, commit)
        assert await another.commit(base, commit) == once
        assert isinstance(once, Stored)
        await committed(store, once.record, Cancelled("enough"))
        assert await store.commit(base, commit) == once
        ids = [entry.commit.id for entry in await store.history(base.state.key)]
        assert ids.count(commit.id) == 1

    async def test_the_same_commit_elsewhere_lands_nowhere(self, store: Store) -> None:
        """A commit that landed is refused at a later revision, and in another record."""
        base = await made(store)
        commit = adopted(base)
        landed = await store.commit(base, commit)
        assert isinstance(landed, Stored)
        assert await store.commit(landed.record, commit) == Conflict()
        other = await made(store)
        assert await store.commit(other, commit) == Conflict()
        assert await store.load(base.state.key) == landed.record
        assert await store.load(other.state.key) == other

    async def test_an_id_does_not_stand_for_another_body(self, store: Store) -> None:
        """Another commit under an id that is taken is not mistaken for the one that landed."""
        base = await made(store)
        commit = adopted(base)
        landed = await store.commit(base, commit)
        assert isinstance(landed, Stored)
        assert await store.commit(base, replace(commit, body=Cancelled("other"))) == Conflict()
        assert await store.load(base.state.key) == landed.record

    async def test_what_cannot_follow_is_not_kept(self, store: Store) -> None:
        """A commit that breaks an invariant raises, and the record stays as it was."""
        base = await made(store)
        with pytest.raises(InvariantBroken):
            await store.commit(base, commit_of(Settled()))
        assert await store.load(base.state.key) == base

    async def test_no_update_is_lost(self, store: Store, another: Store) -> None:
        """Of many writers that each add one, retrying on conflict, every one is counted."""
        key = (await made(store)).state.key
        clients = itertools.cycle((store, another))

        async def add_one(client: Store) -> None:
            found: object = Conflict()
            while found == Conflict():
                base = await client.load(key)
                assert base is not None
                found = await client.commit(base, adopted(base))
            assert isinstance(found, Stored)

        await asyncio.gather(*(add_one(next(clients)) for _ in range(WRITERS)))
        record = await store.load(key)
        assert record is not None
        assert record.state.binding.clear_number == WRITERS
        assert record.revision == WRITERS + 1
        revisions = [entry.revision for entry in await another.history(key)]
        assert revisions == list(range(1, WRITERS + 2))

    async def test_load_sees_every_acknowledged_commit(self, store: Store, another: Store) -> None:
        """What one client was told is stored, every client loads from then on."""
        record = await made(store)
        for _ in range(10):
            for writer, reader in ((store, another), (another, store)):
                assert await reader.load(record.state.key) == record
                record = await committed(writer, record, adopted(record).body)
                assert await reader.load(record.state.key) == record
                latest = await reader.latest(record.state.key.task)
                assert latest == record

    async def test_a_reader_never_goes_back(self, store: Store, another: Store) -> None:
        """Loads during writes see revisions that only grow, each of them whole."""
        record = await made(store)
        key = record.state.key
        seen: list[Record] = []

        async def read() -> None:
            while not seen or seen[-1].revision < 20:
                found = await another.load(key)
                assert found is not None
                seen.append(found)
                await asyncio.sleep(0)

        reading = asyncio.create_task(read())
        while record.revision < 20:
            record = await committed(store, record, adopted(record).body)
            await asyncio.sleep(0)
        await reading
        revisions = [one.revision for one in seen]
        assert revisions == sorted(revisions)
        assert all(one.state.binding.clear_number == one.revision - 1 for one in seen)


@pytest.mark.asyncio
class Remembering:
    """History is append-only, complete and in order."""

    async def test_history_gives_back_each_commit(self, store: Store, another: Store) -> None:
        """Every commit is read as it was made: id, time, actor and body, by revision."""
        first = begun(await new_key(store))
        second = commit_of(Cancelled("enough"), actor="person:Zoë 😀 'x'", at=MOMENT)
        created = await store.create(first)
        assert isinstance(created, Stored)
        await store.commit(created.record, second)
        entries = await another.history(created.record.state.key)
        assert [(entry.revision, entry.commit) for entry in entries] == [(1, first), (2, second)]
        assert entries[1].commit.at.utcoffset() is not None

    async def test_history_only_grows(self, store: Store) -> None:
        """Later commits, accepted or refused, change nothing of what is written."""
        base = await made(store)
        record, before = base, await store.history(base.state.key)
        for body in SETTLED:
            record = await committed(store, record, body)
            assert await store.commit(base, adopted(base)) == Conflict()
            after = await store.history(base.state.key)
            assert after[:-1] == before
            before = after

    async def test_the_record_is_the_fold_of_its_history(self, store: Store) -> None:
        """Folding the history again gives the record that is loaded."""
        record = await committed(store, await made(store), *SETTLED)
        first, *others = (entry.commit for entry in await store.history(record.state.key))
        again = folding.begin(first)
        for commit in others:
            again = folding.apply(again, commit)
        assert again == record == await store.load(record.state.key)

    async def test_history_is_read_in_parts(self, store: Store) -> None:
        """`after` and `limit` cut the history without gaps, and its end is empty."""
        record = await committed(store, await made(store), *SETTLED)
        key = record.state.key
        whole = await store.history(key)
        assert await store.history(key, limit=2) == whole[:2]
        assert await store.history(key, after=2, limit=1) == whole[2:3]
        assert await store.history(key, after=2) == whole[2:]
        assert await store.history(key, after=record.revision) == ()
