"""The revisions, oldest first, in order of their numbers."""
