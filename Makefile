# Commands for working on airflow-dispatch. `make` alone lists them; docs/contributing.md explains.

PYTHON ?= python3
VENV   ?= .venv
EXTRAS ?= dev,postgres
# More options for pytest: make test PYTEST_ARGS="-x -k record"
PYTEST_ARGS ?=

BIN       := $(VENV)/bin
INSTALLED := $(VENV)/.installed
UV        := $(shell command -v uv 2>/dev/null)

# What `make test-fast` leaves out: long searches, Airflow, real servers, real processes, measured times.
SLOW_MARKS := airflow or benchmark or exhaustive or full or kubernetes or mysql or postgres or slurm or system

.DEFAULT_GOAL := help
.PHONY: help venv lint format test test-fast test-full bench demo constraints clean

help: ## List the commands
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: $(INSTALLED) ## Make the environment in .venv (PYTHON=python3.12 chooses the interpreter)

$(INSTALLED): pyproject.toml constraints.txt
ifneq ($(UV),)
	test -x $(BIN)/python || "$(UV)" venv --quiet --python "$(PYTHON)" $(VENV)
	"$(UV)" pip install --quiet --python $(BIN)/python -c constraints.txt -e ".[$(EXTRAS)]"
else
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[$(EXTRAS)]"
endif
	touch $@

lint: $(INSTALLED) ## Check style, format, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED) ## Rewrite the files in the one format, and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: lint ## Everything, with its real servers (what CI runs)
	$(BIN)/pytest -m "not full" $(PYTEST_ARGS)

test-fast: $(INSTALLED) ## What needs neither Airflow nor a server: under a minute
	$(BIN)/pytest -m "not ($(SLOW_MARKS))" $(PYTEST_ARGS)

test-full: lint ## Everything, and the tests that do not fit into CI's time
	$(BIN)/pytest $(PYTEST_ARGS)

bench: $(INSTALLED) ## The benchmarks alone, with the figures they measure
	$(BIN)/pytest -m benchmark -s $(PYTEST_ARGS)

demo: $(INSTALLED) ## Train the digits example under a private Airflow (CHAOS=1 kills its triggerer)
	exec $(BIN)/python -m dags_examples.demo $(if $(filter 1,$(CHAOS)),--chaos)

constraints: ## Pin the versions of everything again, for every Python (needs uv)
	uv pip compile --quiet --universal --python-version 3.10 --all-extras --upgrade \
	    --no-header --no-annotate --no-emit-index-url pyproject.toml --output-file .constraints.new
	{ sed -n '/^#/p' constraints.txt; cat .constraints.new; } > .constraints.both
	mv .constraints.both constraints.txt
	rm .constraints.new

clean: ## Remove the environment and all caches
	rm -rf $(VENV) .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache dist
