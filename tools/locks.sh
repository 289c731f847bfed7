#!/bin/sh
# Compiles the lock files with hashes; what is locked stays unless it no longer fits (or pass: --upgrade).
set -eu
cd "$(dirname "$0")/.."
compile() {
  .venv/bin/uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 "$@" >/dev/null
}

compile pyproject.toml --group dev --output-file requirements.lock "$@"
# The image for clusters: without what only the laptop cluster needs.
compile pyproject.toml --no-annotate --constraint requirements.lock --output-file requirements-runtime.lock \
  --no-emit-package cel-expr-python --no-emit-package uv --no-emit-package tzdata
# What builds the wheel, and what fills environments.
echo hatchling | compile - --no-annotate --constraint requirements.lock --output-file tools/build.lock
echo uv | compile - --no-annotate --constraint requirements.lock --output-file tools/uv.lock
