"""What a record means and what follows from it: pure functions over frozen values.

Nothing here knows a clock, randomness, input or output, asynchrony, logging or Airflow;
`tests/unit/test_layers.py` holds that. The modules, bottom up: `identity` (keys, marks), `causes`,
`job`, `record` (the state and its parts), `commits`, `folding` (the only code that changes a
state), `view` (what a Find showed), `settlement` (predicates such as ended, quiet, settled),
`decision` (the next step), `status` and `classify`.
"""
