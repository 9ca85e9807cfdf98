"""What the Airflow parts share: options, connections, the event, and the composition of services.

Nothing here decides about a run; it turns Airflow's configuration, connections and log into the
ports that the supervisor awaits.
"""
