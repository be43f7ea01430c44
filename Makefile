# Every target makes what it needs: a virtual environment in .venv with the project installed.
PYTHON ?= python3
BIN := .venv/bin
# As many at once as there are processors, and few enough that each test has its time.
PYTEST := $(BIN)/pytest --numprocesses=auto --maxprocesses=4

.PHONY: demo check check-all test stress format benchmark clean

demo: .venv/installed
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

.venv/installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "agentmd needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

clean:
	rm -rf .venv
