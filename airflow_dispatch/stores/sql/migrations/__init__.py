"""Alembic's environment and the revisions of our tables; loaded by Alembic, never imported."""
