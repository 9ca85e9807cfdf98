"""`airflow dispatch ...`: look at jobs, cancel one, supervise what nobody else does, find faults.

`definition` is what Airflow imports on every call of its command line, so it is light; the commands
are loaded when they are called. What is shown is made from records by pure functions (`document`,
`facts`, `rows`, `explanation`, `findings`), which need no Airflow; `reading` fetches what they
need, `commands` ties both together, and `output` prints.
"""
