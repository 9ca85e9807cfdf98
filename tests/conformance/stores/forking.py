"""A process that uses a store, forks, and uses it on both sides; run by `test_failures`."""

import asyncio
import os
import sys

from airflow_dispatch.stores.sql.database import Database
from airflow_dispatch.stores.sql.store import SqlStore
from airflow_dispatch.testing.store_samples import adopted, committed, made


async def use(store: SqlStore, steps: int) -> None:
    """Make a record and commit to it."""
    record = await made(store)
    for _ in range(steps):
        record = await committed(store, record, adopted(record).body)
    assert await store.load(record.state.key) == record


async def child(store: SqlStore) -> None:
    """The side that must connect anew."""
    await use(store, 20)
    await store.close()


async def parent(store: SqlStore) -> None:
    """The side whose connections must not suffer: it goes on while the child runs and after it."""
    await use(store, 3)
    pid = os.fork()
    if pid == 0:
        return
    await use(store, 20)
    _, status = await asyncio.to_thread(os.waitpid, pid, 0)
    assert status == 0
    await use(store, 3)
    await store.close()
    sys.stdout.write("parent\n")


if __name__ == "__main__":
    shared = SqlStore(Database(sys.argv[1]))
    first = os.getpid()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(parent(shared))
    if os.getpid() != first:
        # The child keeps away from its parent's loop, as a process forked by Airflow does.
        asyncio.run(child(shared))
        sys.stdout.write("child\n")
        sys.stdout.flush()
        os._exit(0)
    loop.close()
