"""Records in the Airflow metadata database, through SQLAlchemy Core on asyncio drivers.

`database` opens it, `tables` says what it holds, `store` is the Store port and `task_rows` the
Tasks port on it, `schema` makes and upgrades the tables. docs/reference/tables.md describes the
tables to operators.
"""
