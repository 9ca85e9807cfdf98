"""The local cluster keeps the contract, with real processes."""

import pytest

from airflow_dispatch.testing.cluster_suite import ClusterSuite
from tests.conformance.clusters.harnesses import LocalHarness

pytestmark = pytest.mark.system


class TestLocalCluster(ClusterSuite):
    """The local cluster passes the suite."""


@pytest.fixture
def harness(local_harness: LocalHarness) -> LocalHarness:
    """An empty cluster for each test."""
    return local_harness
