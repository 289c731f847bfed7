"""The demo as an operator."""

from __future__ import annotations

from collections.abc import Mapping

from modelyard.operators.demo.api import GREETING
from modelyard.operators.demo.controller import greetings
from modelyard.operators.demo.webhooks import CONVERSIONS, WEBHOOKS
from modelyard.runtime.operator import Operator


def operator(environ: Mapping[str, str]) -> Operator:
    return Operator(
        name="demo",
        title="Demo greetings",
        upstream="none",
        controllers=[greetings()],
        definitions=[GREETING],
        webhooks=WEBHOOKS,
        conversions=CONVERSIONS,
    )
