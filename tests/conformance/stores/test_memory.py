"""The memory store keeps the contract of stores."""

import pytest

from airflow_dispatch.stores.memory import MemoryStore
from airflow_dispatch.testing.doubles import ManualClock
from airflow_dispatch.testing.store_samples import PassTime
from airflow_dispatch.testing.store_suite import StoreSuite


class TestMemoryStore(StoreSuite):
    """In one process there is one store, and its clock is the test's."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        """A clock that only the test moves."""
        return ManualClock()

    @pytest.fixture
    def store(self, clock: ManualClock) -> MemoryStore:
        """A store of the test's own."""
        return MemoryStore(clock.now, "deployment")

    @pytest.fixture
    def another(self, store: MemoryStore) -> MemoryStore:
        """The same one: nobody else can reach its records."""
        return store

    @pytest.fixture
    def pass_time(self, clock: ManualClock) -> PassTime:
        """Moves the clock."""

        async def move(seconds: float) -> None:
            clock.advance(seconds)

        return move
