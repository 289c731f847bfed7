"""CodeFlare as data: what it serves, watches, ships and can be told."""

from __future__ import annotations

from collections.abc import Mapping

from modelyard.operators.codeflare.appwrapper.operator_parts import appwrapper_parts
from modelyard.operators.codeflare.config import Settings
from modelyard.operators.codeflare.configuration import configuration_controller
from modelyard.operators.codeflare.ray_cluster.controller import ray_cluster_controller
from modelyard.operators.codeflare.ray_cluster.webhooks import ray_cluster_webhooks
from modelyard.runtime.declaring.operator import ExposedService, Operator
from modelyard.runtime.declaring.settings import settings_of


def operator(environ: Mapping[str, str]) -> Operator:
    """The operator with the settings of these environment variables."""
    settings = Settings.from_environ(environ)
    wrappers = appwrapper_parts(settings)
    return Operator(
        name="codeflare",
        title="CodeFlare",
        upstream="codeflare-operator",
        controllers=[configuration_controller(settings), ray_cluster_controller(settings), *wrappers.controllers],
        definitions=wrappers.definitions,
        webhooks=[*ray_cluster_webhooks(settings), *wrappers.webhooks],
        metrics=wrappers.metrics,
        roles=wrappers.roles,
        services=[ExposedService("webhook-service", 443, "", 9443, role="webhook")],
        settings=settings_of(Settings),
    )
