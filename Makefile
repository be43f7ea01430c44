# Every target makes what it needs in .venv: `demo` the project and what it runs on, every other one the tools to work
# on it too. pip says what it does: a first installation takes a while.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check
# How many at once: tests/conftest.py.
PYTEST := $(BIN)/pytest --numprocesses=auto

.PHONY: demo check check-all test stress format benchmark clean

demo: .venv/runs
	@$(BIN)/python examples/demo.py

check: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST)

check-all: check stress

test: .venv/installed
	$(PYTEST)

stress: .venv/installed
	$(BIN)/pytest -m stress

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: .venv/installed
	$(BIN)/python -m benchmarks.step_cost
	$(BIN)/python -m benchmarks.waiting
	$(BIN)/python -m benchmarks.start_up

.venv/runs: pyproject.toml | .venv/bin/python
	$(PIP) -e .
	@touch $@

.venv/installed: pyproject.toml | .venv/bin/python
	$(PIP) -e '.[dev]'
	@touch .venv/runs $@

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "agentmd needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv .venv

clean:
	rm -rf .venv
