"""Implementations of the Store port: `memory` for tests and simulation, `sql` for real records.

Each passes `airflow_dispatch.testing.store_suite`. Stores know the core and the ports; they know
nothing of clusters, supervisors or Airflow, and import a driver only when a database is opened.
"""
