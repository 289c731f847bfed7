"""What the API refuses, as a person would say it. The server's own words are Kubernetes' and stay as they are."""

from __future__ import annotations

import re

from modelyard.kube.errors import ApiError

_QUANTITY = re.compile(
    r"""\S+\ in\ body\ should\ match\ '\^\(\\\+\|-\)\?\(\(\[0-9\].*?\)\?\$'  # in a schema
    | quantities\ must\ match\ the\ regular\ expression\ '[^']*'
    | unable\ to\ parse\ (?:numeric\ part\ of\ quantity|quantity's\ suffix)""",
    re.VERBOSE,
)
_IN_WORDS = (
    "must be a number with a unit and nothing between them: 500m or 2 of cpu, 512Mi or 10Gi of memory and storage"
)


def refusal(error: ApiError) -> str:
    return _QUANTITY.sub(_IN_WORDS, str(error))


def no_namespace(name: str) -> str:
    return f"there is no namespace {name}; make it with: kubectl create namespace {name}"
