"""What Airflow's own `airflow db` commands need to make and upgrade the tables of dispatch."""
