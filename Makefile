# The two commands of the README are `make up` and `make test`; both set everything up themselves.
.DEFAULT_GOAL := help
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.ready
PYTEST_ARGS ?=

.PHONY: help up test test-real test-e2e test-chaos check docs clean
help:  ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | sort

$(STAMP): requirements.lock pyproject.toml
	@test -x $(PY) || python3 -m venv $(VENV)
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip >/dev/null
	$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r tools/uv.lock
	$(PY) -m uv pip sync -q --python $(PY) requirements.lock
	$(PY) -m uv pip install -q --python $(PY) --no-deps --no-build-isolation -e .
	@touch $@

up: $(STAMP)  ## a laptop cluster with MLflow
	$(VENV)/bin/modelyard up --dir .up --apply examples/quickstart.yaml

test: $(STAMP)  ## pure tests, cluster tests on the embedded server, a sample of each sweep
	$(PY) -m pytest -q -n 2 --dist worksteal tests/unit tests/cluster tests/chaos -m "not slow" $(PYTEST_ARGS)

test-real: $(STAMP)  ## cluster tests on a real kube-apiserver
	$(PY) -m tests.real.build >/dev/null
	$(PY) -m pytest -q tests/cluster --apiserver real $(PYTEST_ARGS)

test-e2e: $(STAMP)  ## `modelyard up` with real programs, kubectl, a browser
	$(PY) -m pytest -q tests/e2e $(PYTEST_ARGS)

test-chaos: $(STAMP)  ## full sweeps, differential fuzzing and kill tests for a bounded time
	CHAOS=full $(PY) -m pytest -q -n 2 --dist worksteal tests/chaos $(PYTEST_ARGS)

check: $(STAMP)  ## linters, types, import directions, generated files
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) -m modelyard.cli.main docs --check

docs: $(STAMP)  ## write the generated pages
	$(PY) -m modelyard.cli.main docs

bench-%: $(STAMP)  ## side-by-side benchmarks: apiserver, runtime, registry, up
	$(PY) -m bench.$*

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
