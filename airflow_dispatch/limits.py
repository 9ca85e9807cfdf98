"""Every limit of the package, with its unit in its name.

A loop, a queue, a message or an age that has no line here has no limit, which is a defect. Limits
that a site may want to change are options instead (`airflow_dispatch.ports.policy`); their defaults
stand there.
"""

from __future__ import annotations

# The job.
SCRIPT_BYTES_MAX = 1 << 20
ENV_ENTRIES_MAX = 1_000
ENV_VALUE_BYTES_MAX = 128 << 10
COMMAND_ARGUMENTS_MAX = 10_000
COMMAND_BYTES_MAX = 1 << 20
NODES_MAX = 10_000
TASKS_PER_NODE_MAX = 1_000
CPUS_PER_TASK_MAX = 10_000
GPUS_PER_NODE_MAX = 1_000
MEMORY_BYTES_MIN = 1 << 20
MEMORY_BYTES_MAX = 1 << 50
DURATION_SECONDS_MAX = 366 * 24 * 3600
GRACE_SECONDS_MAX = 24 * 3600

# Launching.
ATTEMPTS_MAX = 3
"""Start calls of one submission that may stay unknown or never land."""
REFUSALS_MAX = 100
"""Temporary refusals of one submission before its launch counts as failed."""
OBJECTS_MAX = 1_000
"""Objects that one record follows; a scheduler that shows more of one job is out of order."""
PREDECESSORS_MAX = 1_000

# A pass.
STEPS_PER_PASS_MAX = 32
PASSES_PER_DRIVE_MAX = 32
EVIDENCE_TRIES_MAX = 20
ACT_TRIES_MAX = 20

# The daemon.
DAEMON_JOBS_AT_ONCE = 64
"""Jobs that one daemon moves at the same time; their Finds are shared."""
DAEMON_ROUNDS_ONCE = 100
"""Rounds of a daemon that is to end once nothing moves any more."""

# Words for people and for the record.
DETAIL_CHARS_MAX = 2_000
REASON_CHARS_MAX = 2_000
OUTPUT_CHUNK_BYTES_MAX = 16 << 10
RESULT_BYTES_MAX = 256 << 10
RESULT_DEPTH_MAX = 100
"""Lists and objects inside each other in a result: Airflow's XCom writes them by recursion."""

# Lists.
PAGE_ROWS_MAX = 500

# Output of a run in the task's log.
OUTPUT_CHUNKS_PER_PASS = 64
OUTPUT_BYTES_MAX = 8 << 20
OUTPUT_LINES_MAX = 50_000
"""Each line is half a millisecond of the event loop that all triggers of a process share."""
OUTPUT_LINES_PER_PASS = 1_000
OUTPUT_LINES_AT_ONCE = 100
"""Lines told before everything else of the process gets its turn."""

# The record store. A stalled supervisor must not keep a row locked for others.
STORE_POOL_SIZE = 4
STORE_POOL_WAIT_SECONDS = 10
STORE_CONNECT_SECONDS = 10
STORE_COMMAND_SECONDS = 20
STORE_LOCK_SECONDS = 10
STORE_IDLE_SECONDS = 15
"""A transaction of ours that sends nothing for so long is rolled back by PostgreSQL."""
STORE_RECYCLE_SECONDS = 1_800
SQLITE_BUSY_SECONDS = 30
JOBS_CACHED_CHARS_MAX = 16 << 20
"""Job descriptions that a store keeps decoded, counted as they are written."""
TASKS_PER_READ_MAX = 100
"""Task instances that one statement asks for."""
AUDIT_LINES_MAX = 1_000
"""Lines of Airflow's audit log that one statement reads, the newest ones."""

# The local cluster.
LOCAL_CALL_BOUND_SECONDS = 5
"""A call to it has landed, or never will, this long after its deadline."""
LOCAL_SLOTS_MAX = 10_000
LOCAL_POLL_SECONDS_MIN = 0.02
LOCAL_POLL_SECONDS_MAX = 0.2
LOCAL_FREE_BYTES_MIN = 16 << 20
"""Free space that a launch needs in the run root."""
LOCAL_LEFTOVER_SECONDS = 2
"""From the warning to the kill of processes that a run leaves behind when its command ends."""
LOCAL_RECORD_BYTES_MAX = 64 << 10
"""Of one small file: an entry, a permit, an exit record."""
LOCAL_SPEC_BYTES_MAX = 256 << 20
"""What a shim is told when it is started, script and environment included."""
LOCAL_ENVIRON_BYTES_MAX = 8 << 20
"""Of one process's environment, read to look for a mark."""
LOCAL_STAMPS_MAX = 10_000
"""Tasks for which a cluster remembers what its last Find saw, to wake watches early."""
PERMIT_STARTS_MAX = 1_000
"""Start counts of one permit."""
