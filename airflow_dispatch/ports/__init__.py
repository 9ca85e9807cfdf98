"""What a supervisor needs from the world, as protocols and frozen values.

`store` keeps records, `cluster` launches and looks, `clock` tells and passes time, `tokens` makes
random ids, `tasks` reads what Airflow wants, `journal` tells the story to people. Coroutines of the
supervisor await these and nothing else, so that a simulator can step the very same code.
"""
