# Everything a contributor runs. `make` alone lists it; each target sets up what it needs.
.DEFAULT_GOAL := help
.PHONY: help setup run controlplane test check format bench docs lock wheel clean

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
STAMP := $(VENV)/stowplan-is-set-up

LISTEN ?= 127.0.0.1:8888
EXAMPLE := examples/one-rack
LEVELS := topology.example.com/block,topology.example.com/rack
METRICS := stowplan.telemetry.metrics

# The lock files hold versions and hashes, never where a package comes from.
UV_VERSION := 0.13.9
UV_COMPILE := UV_CUSTOM_COMPILE_COMMAND='make lock' $(VENV)/bin/uv pip compile --quiet \
	--universal --python-version 3.11 --generate-hashes --no-emit-index-url --annotation-style line

help: ## List the targets (this is the default)
	@awk 'BEGIN { FS = ":.*## " } /^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## Create .venv with everything pinned; PYTHON=python3.12 picks another interpreter
	@:

$(STAMP): pyproject.toml requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "stowplan needs Python 3.11 or newer, and $(PYTHON) is not; try: make setup PYTHON=python3.12" >&2; \
		exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
		echo "$(PYTHON) lacks venv; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
		exit 1; }
	@echo "Setting up $(VENV) (a minute the first time) ..."
	@$(PY) -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --require-hashes --requirement requirements/dev.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "$(VENV) is ready; next: make run, make test, or make for the list"

run: setup ## Serve the example cluster, and say what to try; LISTEN=127.0.0.1:9999 moves it
	@sed 's/127\.0\.0\.1:8888/$(LISTEN)/' $(EXAMPLE)/try.txt
	@exec $(PY) -m stowplan serve --from-file $(EXAMPLE) --levels $(LEVELS) --listen $(LISTEN)

controlplane: setup ## Build a real control plane for the tests, once: five minutes, needs Go
	@$(PY) -m tests.controlplane.programs

test: setup controlplane ## Run all tests, and those of the kernels once more uncompiled
	$(PY) -m pytest
	@echo "Once more without the compiler, which checks no bounds: the kernels and the shared cases"
	NUMBA_DISABLE_JIT=1 $(PY) -m pytest tests/unit/topology tests/cases

check: setup ## Check format, lint, types, imports and generated files
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/ruff check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) -m $(METRICS) --check docs/metrics.md
	$(PY) -m stowplan.api.crd --check manifests/crds

format: setup ## Format the code and mend what the linter can mend by itself
	$(VENV)/bin/ruff format
	$(VENV)/bin/ruff check --fix

bench: setup ## Measure the budgets, in minutes: a table of ratios, and JSON
	$(PY) -m bench

docs: setup ## Write the generated pages
	$(PY) -m $(METRICS) > docs/metrics.md
	$(PY) -m stowplan.api.crd manifests/crds

lock: setup ## Resolve the newest versions into requirements/
	@$(PIP) install uv==$(UV_VERSION)
	$(UV_COMPILE) --upgrade --extra dev pyproject.toml --output-file requirements/dev.txt
	$(UV_COMPILE) --upgrade --constraint requirements/dev.txt pyproject.toml \
		--output-file requirements/runtime.txt
	$(UV_COMPILE) --upgrade --constraint requirements/dev.txt requirements/build.in \
		--output-file requirements/build.txt

wheel: setup ## Build the wheel into dist/
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .

clean: ## Remove all that the other targets made, .venv included
	rm -rf $(VENV) dist build bench/results .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
