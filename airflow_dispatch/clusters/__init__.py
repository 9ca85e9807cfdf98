"""Adapters: each makes a scheduler look like `airflow_dispatch.ports.cluster.Cluster`."""
