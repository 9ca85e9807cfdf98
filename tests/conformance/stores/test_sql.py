"""The SQL store keeps the contract of stores, on SQLite and on a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from airflow_dispatch.stores.sql.store import SqlStore
from airflow_dispatch.testing.store_samples import LoseReply, PassTime
from airflow_dispatch.testing.store_suite import LostReplySuite, StoreSuite
from tests.conformance.stores.conftest import opened
from tests.support.postgres import Postgres
from tests.support.proxy import Cut, Proxy


class TestSqlStore(StoreSuite):
    """Two clients with pools of their own on one database."""

    @pytest.fixture
    async def store(self, shared_url: str) -> AsyncIterator[SqlStore]:
        """One client."""
        async with opened(shared_url) as store:
            yield store

    @pytest.fixture
    async def another(self, shared_url: str) -> AsyncIterator[SqlStore]:
        """Another client."""
        async with opened(shared_url) as store:
            yield store

    @pytest.fixture
    def pass_time(self) -> PassTime:
        """The database's clock is the real one."""
        return asyncio.sleep


@pytest.mark.postgres
class TestLostReplies(LostReplySuite):
    """A client behind a proxy that cuts its connection around COMMIT, and one that is not."""

    @pytest.fixture
    def backend(self) -> str:
        """Only a server's replies can get lost."""
        return "postgresql"

    @pytest.fixture
    async def proxy(self, postgres: Postgres) -> AsyncIterator[Proxy]:
        """The proxy; the test fails if what it was told to cut never came."""
        async with Proxy(postgres.port).listening() as proxy:
            yield proxy
            assert proxy.cuts >= 1
            assert proxy.cut is None

    @pytest.fixture
    async def store(
        self, postgres: Postgres, proxy: Proxy, shared_url: str
    ) -> AsyncIterator[SqlStore]:
        """The client whose replies can get lost."""
        async with opened(postgres.url(port=proxy.port)) as store:
            yield store

    @pytest.fixture
    async def another(self, shared_url: str) -> AsyncIterator[SqlStore]:
        """The client that sees what became of it."""
        async with opened(shared_url) as store:
            yield store

    @pytest.fixture
    def lose_reply(self, proxy: Proxy) -> LoseReply:
        """Cut after COMMIT or before it."""

        def lose(*, landed: bool) -> None:
            proxy.cut = Cut.AFTER if landed else Cut.BEFORE

        return lose
