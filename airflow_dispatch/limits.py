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

# Words for people and for the record.
DETAIL_CHARS_MAX = 2_000
REASON_CHARS_MAX = 2_000
OUTPUT_CHUNK_BYTES_MAX = 64 << 10
RESULT_BYTES_MAX = 256 << 10

# Lists.
PAGE_ROWS_MAX = 500

# Output of a run in the task's log.
OUTPUT_CHUNKS_PER_PASS = 16
OUTPUT_BYTES_MAX = 8 << 20
