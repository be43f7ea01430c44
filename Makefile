# Every target makes what it needs in .venv: `demo` the project and what it runs on, every other one the tools to work
# on it too. pip says what it does: a first installation takes a while.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check
# How many at once: tests/conftest.py.
PYTEST := $(BIN)/pytest --numprocesses=auto --dist=loadgroup

# What releases are made with, apart from what the project is developed with.
RELEASE := .venv/release
UV := $(RELEASE)/bin/uv

.PHONY: demo check check-all test stress format benchmark clean lock lock-check requirements sbom

demo: .venv/runs
	@$(BIN)/python examples/demo.py

check: .venv/installed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST)

check-all: check lock-check stress

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

# uv.lock names every package of a release, with hashes; `lock` brings it up to date with pyproject.toml and the registry.
lock: $(RELEASE)/installed
	$(UV) lock --upgrade

lock-check: $(RELEASE)/installed
	$(UV) lock --check

# For pip: `pip install --require-hashes -r dist/requirements.txt`, and then agentmd itself with --no-deps.
requirements: lock-check
	$(UV) export --quiet --frozen --extra all --no-emit-project --output-file dist/requirements.txt

# What a release consists of, in CycloneDX's form: of exactly the packages of uv.lock, installed for that.
sbom: lock-check
	UV_PROJECT_ENVIRONMENT=.venv/sbom $(UV) sync --quiet --frozen --extra all --no-editable
	@mkdir -p dist
	$(RELEASE)/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application --output-reproducible \
		--output-file dist/sbom.cdx.json .venv/sbom/bin/python

$(RELEASE)/installed: Makefile | .venv/bin/python
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --disable-pip-version-check 'uv>=0.13,<0.14' 'cyclonedx-bom>=7.5,<8'
	@touch $@

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
