"""Hooks, which give connection types their place in Airflow's forms."""
