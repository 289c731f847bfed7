"""A Kubernetes API server in Python, on SQLite or in memory: the laptop cluster's heart, and a bench for tests."""
