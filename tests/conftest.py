"""Options of all tiers."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--apiserver",
        choices=["embedded", "real"],
        default="embedded",
        help="the API server that cluster tests run on: ours in process, or a real kube-apiserver",
    )
