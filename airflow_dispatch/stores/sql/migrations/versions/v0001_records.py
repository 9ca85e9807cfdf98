"""The tables of the first release: records, their commits, their owners, and the deployment's id.

Written out by hand and never changed again; `tables.py` goes on, and each later difference gets a
revision of its own. A test compares what this makes with what `create_all` makes.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the four tables."""
    op.create_table(
        "dispatch_job",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("task_digest", sa.String(64), nullable=False),
        sa.Column("deployment", sa.String(250), nullable=False),
        sa.Column("dag_id", sa.String(250), nullable=False),
        sa.Column("run_id", sa.String(250), nullable=False),
        sa.Column("task_id", sa.String(250), nullable=False),
        sa.Column("map_index", sa.Integer, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("cluster", sa.String(250), nullable=False),
        sa.Column("settled", sa.Boolean, nullable=False),
        sa.Column("outcome", sa.String(20), nullable=True),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("updated_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="dispatch_job_pkey"),
        sa.UniqueConstraint("task_digest", "generation", name="dispatch_job_generation_key"),
    )
    op.create_index("dispatch_job_created_idx", "dispatch_job", ["created_at", "digest"])
    op.create_index("dispatch_job_open_idx", "dispatch_job", ["settled", "created_at"])
    op.create_index("dispatch_job_task_idx", "dispatch_job", ["dag_id", "run_id", "task_id"])
    op.create_table(
        "dispatch_commit",
        sa.Column("job", sa.String(64), nullable=False),
        sa.Column("revision", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("job", "revision", name="dispatch_commit_pkey"),
        sa.UniqueConstraint("id", name="dispatch_commit_id_key"),
    )
    op.create_table(
        "dispatch_owner",
        sa.Column("job", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(250), nullable=True),
        sa.Column("epoch", sa.Integer, nullable=False),
        sa.Column("expires_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("job", name="dispatch_owner_pkey"),
    )
    op.create_table(
        "dispatch_deployment",
        sa.Column("one", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("id", sa.String(250), nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("minted_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("one", name="dispatch_deployment_pkey"),
        sa.CheckConstraint("one = 1", name="dispatch_deployment_one_check"),
    )


def downgrade() -> None:
    """Drop the four tables and all records in them."""
    for name in ("dispatch_deployment", "dispatch_owner", "dispatch_commit", "dispatch_job"):
        op.drop_table(name)
