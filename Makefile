# The two commands of the README are `make up` and `make test`; both set everything up themselves.
.DEFAULT_GOAL := help
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.ready
PYTEST_ARGS ?=

.PHONY: help up test test-real test-e2e test-chaos test-full check docs wheel image servers-image base-image locks clean
help:  ## show the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | sort

# An environment whose interpreter is gone or too old is made again, however new its stamp is.
ifneq ($(shell $(PY) -c 'import sys; print(sys.version_info >= (3, 11))' 2>/dev/null),True)
.PHONY: $(STAMP)
endif

$(STAMP): requirements.lock pyproject.toml
	@PYTHON="$(PYTHON)" tools/environment.sh $(VENV)
	@touch $@

up: $(STAMP)  ## a laptop cluster with MLflow
	$(VENV)/bin/modelyard up --dir .up --with mlflow

test: $(STAMP)  ## pure tests, cluster tests on the embedded server, a sample of each sweep
	$(PY) -m pytest -q -n 2 --dist worksteal tests/unit tests/cluster tests/chaos -m "not slow" $(PYTEST_ARGS)

test-real: $(STAMP)  ## cluster tests on a real kube-apiserver
	$(PY) -m tests.real.build >/dev/null
	$(PY) -m pytest -q -n 2 --dist worksteal tests/cluster --apiserver real $(PYTEST_ARGS)

test-e2e: $(STAMP)  ## `modelyard up` with real programs, kubectl, a browser
	$(PY) -m pytest -q tests/e2e $(PYTEST_ARGS)

test-chaos: $(STAMP)  ## full sweeps, attacks, differential fuzzing and kill tests for a bounded time
	CHAOS=full $(PY) -m pytest -q -n 2 --dist worksteal tests/chaos tests/attack $(PYTEST_ARGS)

test-full: check test test-real test-e2e  ## everything at its largest, by hand before a release: hours
	CHAOS=everything $(PY) -m pytest -q -n 2 --dist worksteal tests/chaos tests/attack $(PYTEST_ARGS)

check: $(STAMP)  ## linters, types, import directions, generated files
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) -m modelyard.cli.main docs --check

docs: $(STAMP)  ## write the generated pages
	$(PY) -m modelyard.cli.main docs

wheel: $(STAMP)  ## build the wheel into dist
	rm -f dist/modelyard-*.whl
	$(PY) -m build --wheel --no-isolation --outdir dist .

IMAGE ?= modelyard
SERVERS_IMAGE ?= modelyard-servers
ENGINE ?= $(shell command -v docker || command -v podman)
define build_image
	@test -n "$(ENGINE)" || { echo "needs docker or podman, found none on PATH" >&2; exit 1; }
	version=$$($(PY) -m tools.version) && $(ENGINE) build --target $(1) \
	  --build-arg VERSION="$$version" \
	  --build-arg REVISION="$$(git rev-parse HEAD)" \
	  --build-arg CREATED="$$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
	  --tag "$(2):$$(echo "$$version" | tr + -)" .
endef

image: $(STAMP)  ## build the image of the plane: IMAGE=REGISTRY/modelyard, tagged with the version
	$(call build_image,plane,$(IMAGE))

servers-image: $(STAMP)  ## build the image of the registry's and the catalog's servers: SERVERS_IMAGE=REGISTRY/modelyard-servers
	$(call build_image,servers,$(SERVERS_IMAGE))

base-image: $(STAMP)  ## pin the newest digest of the base image in the Dockerfile
	$(PY) -m tools.base_image

locks: $(STAMP)  ## compile the lock files; ARGS=--upgrade takes newer versions
	tools/locks.sh $(ARGS)

bench-registry-server: $(STAMP)  ## the registry's REST server with 100,000 versions
	$(PY) -m bench.registry_server

bench-%: $(STAMP)  ## side-by-side benchmarks: apiserver, appwrapper, runtime, registry, up
	$(PY) -m bench.$*

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
