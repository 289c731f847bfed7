"""The Ray operator as data: what it serves, watches and can be told."""

from __future__ import annotations

from collections.abc import Mapping

from modelyard.operators.parts.ray_crd import RAY_CLUSTER
from modelyard.operators.ray.config import Settings
from modelyard.operators.ray.controller import ray_controller
from modelyard.runtime.declaring.operator import ExposedService, Operator
from modelyard.runtime.declaring.settings import settings_of


def operator(environ: Mapping[str, str]) -> Operator:
    """The operator with the settings of these environment variables."""
    settings = Settings.from_environ(environ)
    return Operator(
        name="ray",
        title="Ray",
        upstream="kuberay-operator",
        controllers=[ray_controller(settings)],
        definitions=[RAY_CLUSTER],
        services=[
            ExposedService("the cluster's name and -head-svc", 8265, "dashboard", 8265),
            ExposedService("the cluster's name and -head-svc", 10001, "client", 10001),
        ],
        settings=settings_of(Settings),
    )
