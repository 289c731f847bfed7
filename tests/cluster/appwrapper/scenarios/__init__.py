"""Scenarios 27-59 of the CodeFlare specification, which are about AppWrappers, each written once; 58 with real pods is in the e2e tier."""

from __future__ import annotations

from tests.cluster.appwrapper.scenarios import admission, failures, life, queued
from tests.cluster.appwrapper.scenarios.scene import Scenario

_BOOKS = (admission.book, life.book, failures.book, queued.book)
SCENARIOS: dict[int, Scenario] = {number: scene for book in _BOOKS for number, scene in book.scenarios.items()}
NEEDS_API = frozenset(number for book in _BOOKS for number in book.needs_api)


def title(number: int) -> str:
    return f"{number:02}-{SCENARIOS[number].__name__}"
