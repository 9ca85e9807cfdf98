"""The supervisor: reads a record, looks at its cluster, decides, commits, calls; again and again.

`passes` is one such round, `loop` goes on with it under a lease until the job has its outcome, or
as far as it goes without waiting, `resolve` finds or makes the record of a try, `acts` commits what
people and Airflow decide, `hub` shares Finds among the jobs of a process. Coroutines here await
ports and nothing else (the hub apart), and keep nothing that the record does not hold, except for
pace. [no-state-outside]
"""
