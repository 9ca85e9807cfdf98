"""A process that prints the revision of the one record of a DAG run; run by `test_failures`."""

import asyncio
import sys

from airflow_dispatch.ports.store import Filter
from airflow_dispatch.stores.sql.database import Database
from airflow_dispatch.stores.sql.store import SqlStore


async def main(url: str, run_id: str) -> None:
    """Find the record, load it, and print its revision."""
    store = SqlStore(Database(url))
    (listed,) = (await store.list(Filter(run_id=run_id))).records
    loaded = await store.load(listed.state.key)
    assert loaded is not None
    sys.stdout.write(f"{loaded.revision}\n")
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
