"""Greetings as an operator: what the entry point of this project names."""

from __future__ import annotations

from collections.abc import Mapping

from greetings_operator.api import GREETING
from greetings_operator.config import Settings
from greetings_operator.controller import METRICS, greetings
from greetings_operator.webhooks import CONVERSIONS, WEBHOOKS
from modelyard.runtime.declaring.operator import Operator
from modelyard.runtime.declaring.settings import settings_of


def operator(environ: Mapping[str, str]) -> Operator:
    settings = Settings.from_environ(environ)
    return Operator(
        name="greetings",
        title="Greetings",
        controllers=[greetings(settings)],
        definitions=[GREETING],
        webhooks=WEBHOOKS,
        conversions=CONVERSIONS,
        settings=settings_of(Settings, settings.live),
        metrics=METRICS,
    )
