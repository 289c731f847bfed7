"""A Kubernetes API server in Python, on SQLite or in memory: the laptop cluster's heart, and a bench for tests."""

from modelyard.local.apiserver.server import ApiServer
from modelyard.local.apiserver.sqlite import StateUnusable

__all__ = ["ApiServer", "StateUnusable"]
