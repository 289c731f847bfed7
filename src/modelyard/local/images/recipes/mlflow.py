"""MLflow from PyPI, with our plugin for Kubernetes tokens and workspaces: server, schema migration, garbage collection."""

from __future__ import annotations

import re

from modelyard.local.images.recipe import LOCKS, PROGRAMS, Invocation, Recipe, own_programs_first
from modelyard.pins import pins

PLUGIN = PROGRAMS / "mlflow_plugin"
_CIPHERS = "UVICORN_SSL_CIPHERS"
_RED_HAT_POLICY = "PROFILE=SYSTEM"
_PYTHON = re.compile(r"\bpython3\.\d+\b")


def _translate(invocation: Invocation) -> Invocation:
    pin = pins()["mlflow"]
    env = dict(invocation.env)
    if env.get("SUPPORTED_MLFLOW_VERSION") == pin.cluster:
        # The migration job compares its own version with the one the operator supports; here another one runs, on purpose.
        env["SUPPORTED_MLFLOW_VERSION"] = pin.local
    if (ciphers := env.get(_CIPHERS)) is not None:
        # The policy of the system, by the only name for it that every OpenSSL knows.
        env[_CIPHERS] = ciphers.replace(_RED_HAT_POLICY, "DEFAULT")
    invocation = own_programs_first(invocation.with_env(**env)).with_default_env(
        MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false", MLFLOW_DISABLE_TELEMETRY="true", GIT_PYTHON_REFRESH="quiet"
    )
    # The operator's image has its interpreter as `python3.12`; the virtual environment here has `python3`.
    argv = [_PYTHON.sub("python3", word) for word in invocation.argv]
    if argv[:2] == ["mlflow", "server"] and not any(word.startswith("--allowed-hosts") for word in argv):
        argv += ["--allowed-hosts", "127.*:*,*.svc.cluster.local:*,*.svc:*,localhost:*"]
    return invocation.with_argv(*argv)


recipe = Recipe(
    name="mlflow",
    description="MLflow tracking server and model registry",
    patterns=("mlflow", "mlflow-*", "*/mlflow-server", "odh-mlflow*"),
    version=pins()["mlflow"].local,
    command=("mlflow", "server", "--host", "0.0.0.0", "--port", "5000", "--workers", "1"),
    lock=LOCKS / "mlflow.txt",
    source_paths=(PLUGIN,),
    translate=_translate,
    keep_env=frozenset({"MLFLOW_SERVER_CORS_ALLOWED_ORIGINS", "MIGRATION_PYTHON_SCRIPT"}),
)
