"""The part of the store suite about ownership, lists, and what a record must be able to carry.

Leases and lists are for liveness and for people; that payloads and names come back unchanged is
what everything else takes for granted.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from airflow_dispatch import limits
from airflow_dispatch.core.commits import (
    Adopted,
    Cancelled,
    Quieted,
    Sight,
    Sighted,
)
from airflow_dispatch.core.identity import JobKey, Mark
from airflow_dispatch.core.record import Binding, OutcomeState, Phase, Record
from airflow_dispatch.errors import InvalidConfiguration
from airflow_dispatch.ports.store import (
    Conflict,
    Displaced,
    Filter,
    Lease,
    Owned,
    Store,
    Stored,
)
from airflow_dispatch.testing.store_samples import (
    HOSTILE,
    JOB,
    MOMENT,
    SETTLED,
    PassTime,
    adopted,
    commit_of,
    committed,
    made,
    new_key,
)


@pytest.mark.asyncio
class Owning:
    """Leases: one owner at a time, by the store's clock, with epochs that only grow."""

    async def test_one_owner_at_a_time(self, store: Store, another: Store) -> None:
        """While a lease runs, others are told who holds it and until when."""
        key = (await made(store)).state.key
        lease = await store.claim(key, "one", seconds=30)
        assert isinstance(lease, Lease)
        assert (lease.key, lease.owner, lease.epoch) == (key, "one", 1)
        assert await another.claim(key, "two", seconds=30) == Owned("one", lease.expires_at)
        assert await another.owner(key) == Owned("one", lease.expires_at)
        left = lease.expires_at - (await store.health()).now
        assert timedelta(seconds=20) < left <= timedelta(seconds=30)

    async def test_of_many_claims_one_succeeds(self, store: Store, another: Store) -> None:
        """Of claims at the same moment exactly one gets the lease."""
        key = (await made(store)).state.key
        clients = itertools.cycle((store, another))
        found = await asyncio.gather(
            *(next(clients).claim(key, f"owner {n}", seconds=30) for n in range(8))
        )
        leases = [one for one in found if isinstance(one, Lease)]
        assert len(leases) == 1
        held = Owned(leases[0].owner, leases[0].expires_at)
        assert found.count(held) == 7

    async def test_each_claim_raises_the_epoch(self, store: Store) -> None:
        """Claiming again, also what is ours, gives the next epoch and ends the lease before."""
        record = await made(store)
        first = await store.claim(record.state.key, "one", seconds=30)
        second = await store.claim(record.state.key, "one", seconds=30)
        assert isinstance(first, Lease)
        assert isinstance(second, Lease)
        assert second.epoch == first.epoch + 1
        assert await store.renew(first, seconds=30) == Displaced()
        assert await store.commit(record, adopted(record), lease=first) == Displaced()
        assert isinstance(await store.commit(record, adopted(record), lease=second), Stored)

    async def test_an_expired_lease_can_be_taken(
        self, store: Store, another: Store, pass_time: PassTime
    ) -> None:
        """After its end a lease can be claimed; then the old one commits and prolongs nothing."""
        record = await made(store)
        key = record.state.key
        old = await store.claim(key, "one", seconds=0.2)
        assert isinstance(old, Lease)
        await pass_time(0.3)
        assert await store.owner(key) is None
        new = await another.claim(key, "two", seconds=30)
        assert isinstance(new, Lease)
        assert new.epoch == old.epoch + 1
        assert await store.commit(record, adopted(record), lease=old) == Displaced()
        assert await store.renew(old, seconds=30) == Displaced()
        await store.yield_(old)
        assert await store.owner(key) == Owned("two", new.expires_at)
        assert await store.load(key) == record

    async def test_an_expired_lease_that_nobody_took_is_still_ours(
        self, store: Store, pass_time: PassTime
    ) -> None:
        """A supervisor that stalled may go on where it stopped, if nobody stepped in."""
        record = await made(store)
        lease = await store.claim(record.state.key, "one", seconds=0.1)
        assert isinstance(lease, Lease)
        await pass_time(0.2)
        assert isinstance(await store.commit(record, adopted(record), lease=lease), Stored)
        renewed = await store.renew(lease, seconds=30)
        assert isinstance(renewed, Lease)
        assert renewed.epoch == lease.epoch
        assert await store.owner(record.state.key) == Owned("one", renewed.expires_at)

    async def test_renewing_prolongs(self, store: Store, pass_time: PassTime) -> None:
        """A renewed lease ends later than it would have, under the same epoch."""
        key = (await made(store)).state.key
        lease = await store.claim(key, "one", seconds=1)
        assert isinstance(lease, Lease)
        await pass_time(0.05)
        renewed = await store.renew(lease, seconds=30)
        assert isinstance(renewed, Lease)
        assert renewed.epoch == lease.epoch
        assert renewed.expires_at > lease.expires_at + timedelta(seconds=20)

    async def test_a_lease_given_back_is_free(self, store: Store, another: Store) -> None:
        """What was given back can be claimed at once, and is not ours; its epoch goes on."""
        record = await made(store)
        key = record.state.key
        lease = await store.claim(key, "one", seconds=30)
        assert isinstance(lease, Lease)
        await store.yield_(lease)
        assert await store.owner(key) is None
        assert await store.renew(lease, seconds=30) == Displaced()
        assert await store.commit(record, adopted(record), lease=lease) == Displaced()
        claimed = await another.claim(key, "two", seconds=30)
        assert isinstance(claimed, Lease)
        assert claimed.epoch == lease.epoch + 1
        await store.yield_(lease)
        assert await store.owner(key) == Owned("two", claimed.expires_at)

    async def test_who_looked_after_a_record_last(
        self, store: Store, another: Store, pass_time: PassTime
    ) -> None:
        """Held and expired leases name their owner, one given back only when; none is absent.

        However many records are asked for.
        """
        held, expired, free, never = [(await made(store)).state.key for _ in range(4)]
        lasting = await store.claim(held, "one", seconds=30)
        ending = await store.claim(expired, "two", seconds=0.1)
        returned = await store.claim(free, "three", seconds=30)
        assert isinstance(lasting, Lease)
        assert isinstance(ending, Lease)
        assert isinstance(returned, Lease)
        await store.yield_(returned)
        await pass_time(0.2)
        others = tuple(JobKey(never.task, n) for n in range(2, limits.PAGE_ROWS_MAX + 10))
        found = await another.last_leases((held, expired, *others, free, never))
        assert set(found) == {held, expired, free}
        assert found[held] == Owned("one", lasting.expires_at)
        assert found[expired] == Owned("two", ending.expires_at)
        assert found[free].owner == ""
        assert found[free].expires_at < (await store.health()).now < returned.expires_at

    async def test_evidence_needs_no_lease(self, store: Store, another: Store) -> None:
        """A commit without a lease lands whoever owns the record: a late result is still a fact."""
        record = await made(store)
        assert isinstance(await another.claim(record.state.key, "two", seconds=30), Lease)
        assert isinstance(await store.commit(record, commit_of(Sighted(MOMENT, ()))), Stored)

    async def test_a_lease_does_not_excuse_a_stale_view(self, store: Store) -> None:
        """The owner of a record, too, meets a conflict at an old revision."""
        base = await made(store)
        lease = await store.claim(base.state.key, "one", seconds=30)
        assert isinstance(lease, Lease)
        newer = await committed(store, base, Cancelled("enough"))
        assert await store.commit(base, adopted(base), lease=lease) == Conflict()
        assert isinstance(await store.commit(newer, adopted(newer), lease=lease), Stored)


@pytest.mark.asyncio
class Listing:
    """Lists: filters, order and pages; and which records wait for an owner."""

    async def several(self, store: Store, count: int, pass_time: PassTime) -> list[Record]:
        """Records of one DAG run, oldest first, at different times of the store."""
        run = (await new_key(store)).task
        records = []
        for number in range(count):
            key = JobKey(replace(run, dag_id=f"d{run.run_id}", task_id=f"t{number}"), 1)
            records.append(await made(store, key, replace(JOB, cluster=run.run_id)))
            await pass_time(0.005)
        return records

    async def test_newest_first_in_pages(self, store: Store, pass_time: PassTime) -> None:
        """Pages give every record once, newest first, and the last one has no cursor."""
        records = await self.several(store, 5, pass_time)
        wanted = Filter(dag_id=records[0].state.key.task.dag_id)
        found: list[Record] = []
        cursor: str | None = None
        sizes: list[int] = []
        while not sizes or cursor is not None:
            page = await store.list(wanted, cursor=cursor, limit=2)
            found += page.records
            sizes.append(len(page.records))
            cursor = page.cursor
        assert found == records[::-1]
        assert sizes == [2, 2, 1]
        assert (await store.list(wanted, limit=5)).cursor is None

    async def test_each_filter_by_itself(self, store: Store, pass_time: PassTime) -> None:
        """Each field of a filter narrows the list to the records that have it."""
        records = await self.several(store, 3, pass_time)
        records[1] = await committed(store, records[1], Cancelled("enough"))
        records[2] = await committed(store, records[2], *SETTLED)
        task = records[0].state.key.task
        run = Filter(run_id=task.run_id)
        digest = records[1].state.key.digest
        cases: tuple[tuple[Filter, set[int]], ...] = (
            (run, {0, 1, 2}),
            (replace(run, deployment=task.deployment), {0, 1, 2}),
            (replace(run, deployment="another"), set()),
            (Filter(dag_id=task.dag_id), {0, 1, 2}),
            (Filter(cluster=task.run_id), {0, 1, 2}),
            (replace(run, task_id="t1"), {1}),
            (replace(run, map_index=-1), {0, 1, 2}),
            (replace(run, map_index=0), set()),
            (replace(run, settled=True), {2}),
            (replace(run, settled=False), {0, 1}),
            (replace(run, outcome=OutcomeState.CANCELLED), {1, 2}),
            (replace(run, outcome=OutcomeState.FAILED), set()),
            (Filter(digest_prefix=digest[:20].upper()), {1}),
            (replace(run, digest_prefix="%"), set()),
            (replace(run, task_id="t_"), set()),
        )
        for wanted, expected in cases:
            page = await store.list(wanted)
            assert {records.index(one) for one in page.records} == expected, wanted

    async def test_a_cursor_from_nowhere_is_refused(self, store: Store) -> None:
        """A cursor that no page gave is an error, not an empty list."""
        with pytest.raises(InvalidConfiguration, match="cursor"):
            await store.list(Filter(), cursor="nowhere")

    async def test_what_is_open_and_unheld_can_be_claimed(
        self, store: Store, pass_time: PassTime
    ) -> None:
        """Claimable are records not settled and without an unexpired lease, oldest first."""
        records = await self.several(store, 5, pass_time)
        keys = [record.state.key for record in records]
        cluster = records[0].state.cluster
        assert await store.claimable(cluster=cluster) == tuple(keys)
        await store.claim(keys[0], "one", seconds=30)
        await store.claim(keys[1], "one", seconds=0.1)
        given_back = await store.claim(keys[2], "one", seconds=30)
        assert isinstance(given_back, Lease)
        await store.yield_(given_back)
        await committed(store, records[3], *SETTLED)
        await pass_time(0.2)
        assert await store.claimable(cluster=cluster) == (keys[1], keys[2], keys[4])
        assert await store.claimable(cluster=cluster, limit=1) == (keys[1],)
        assert await store.claimable(cluster=cluster, after=keys[1]) == (keys[2], keys[4])
        assert await store.claimable(cluster=cluster, after=keys[3], limit=1) == (keys[4],)
        assert await store.claimable(cluster=cluster, after=keys[4]) == ()
        assert await store.claimable(cluster="another") == ()

    async def test_late_evidence_opens_a_settled_record(self, store: Store) -> None:
        """A settled record that something of it is shown alive can be claimed again."""
        key = await new_key(store)
        record = await made(store, key, replace(JOB, cluster=key.task.run_id))
        record = await committed(store, record, *SETTLED)
        assert await store.claimable(cluster=key.task.run_id) == ()
        mark = Mark(key.task.deployment, key.task.digest, key.generation, 1, 1, "tag")
        alive = Sighted(MOMENT + timedelta(hours=1), (Sight("object", mark, Phase.RUNNING),))
        record = await committed(store, record, alive)
        assert await store.claimable(cluster=key.task.run_id) == (key,)
        assert (await store.list(Filter(cluster=key.task.run_id, settled=False))).records == (
            record,
        )


@pytest.mark.asyncio
class Carrying:
    """Whatever a job, a name or a person's words hold comes back unchanged."""

    async def test_hostile_names(self, store: Store, another: Store) -> None:
        """Every name, in every place of a key, names exactly its own record."""
        base = await new_key(store)
        run_id = base.task.run_id
        tasks = [replace(base.task, task_id=name, dag_id=run_id) for name in HOSTILE]
        tasks += [replace(base.task, dag_id=name, task_id=run_id) for name in HOSTILE]
        tasks += [
            replace(base.task, run_id=name, dag_id=run_id, task_id=run_id) for name in HOSTILE
        ]
        records = [await made(store, JobKey(task, 1)) for task in tasks]
        for record in records:
            task = record.state.key.task
            assert await another.load(record.state.key) == record
            wanted = Filter(dag_id=task.dag_id, run_id=task.run_id, task_id=task.task_id)
            assert (await another.list(wanted)).records == (record,)

    async def test_hostile_words(self, store: Store, another: Store) -> None:
        """Commands, environments, reasons, actors and owners keep every character."""
        job = replace(
            JOB,
            command=("sh", *HOSTILE),
            env=tuple((f"NAME_{n:02}", text) for n, text in enumerate(HOSTILE)),
            options=tuple(zip(HOSTILE, HOSTILE, strict=True)),
        )
        record = await made(store, None, job)
        for text in HOSTILE:
            commit = commit_of(Adopted(Binding(1, text, 1, 0)), actor=f"person:{text}")
            found = await store.commit(record, commit)
            assert isinstance(found, Stored)
            record = found.record
        key = record.state.key
        assert await another.load(key) == record
        history = await another.history(key, after=1)
        assert [entry.commit.actor for entry in history] == [f"person:{text}" for text in HOSTILE]
        for text in HOSTILE:
            lease = await store.claim(key, text, seconds=30)
            assert isinstance(lease, Lease)
            assert await another.owner(key) == Owned(text, lease.expires_at)
            await store.yield_(lease)

    @pytest.mark.parametrize("letter", ["x", "\n", "é", "😀"])
    async def test_the_largest_script(self, store: Store, another: Store, letter: str) -> None:
        """A script of 1 MiB comes back whole, and does not get in the way of commits."""
        script = letter * ((1 << 20) // len(letter.encode()))
        record = await made(store, None, replace(JOB, command=(), script=script))
        record = await committed(another, record, *SETTLED)
        assert await another.load(record.state.key) == record
        assert await store.load(record.state.key) == record
        assert record.job.script == script

    async def test_times_keep_their_instant(self, store: Store) -> None:
        """Times come back to the microsecond, whatever zone they were given in."""
        at = datetime(2031, 1, 1, 0, 0, 0, 1, tzinfo=timezone(timedelta(hours=-11)))
        record = await committed(store, await made(store), Cancelled("enough"), Quieted(at))
        loaded = await store.load(record.state.key)
        assert loaded is not None
        assert loaded.state.quiet_at == at
