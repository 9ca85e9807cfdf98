"""The memory cluster keeps the contract that it stands in for."""

import pytest

from airflow_dispatch.testing.cluster_suite import ClusterSuite
from tests.conformance.clusters.harnesses import MemoryHarness


@pytest.fixture
def harness() -> MemoryHarness:
    """An empty cluster for each test."""
    return MemoryHarness()


class TestMemoryCluster(ClusterSuite):
    """The double passes the suite."""
