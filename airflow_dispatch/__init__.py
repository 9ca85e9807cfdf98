"""An Airflow provider that hands one training run to a scheduler and supervises it to its end.

A DAG author writes `DispatchOperator`; the task defers; a trigger supervises the run through a
record in the Airflow metadata database until that record says how the run ended.

This package imports nothing on purpose: Airflow reads provider metadata on every command, and
parsing a DAG file must load no adapter and no database library. Import what you use from its own
module, for example `airflow_dispatch.operators.dispatch`.
"""

__version__ = "0.1.0"
