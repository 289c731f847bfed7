"""The plane as a process: controllers run together, the lease, metrics, health, logs and debug pages."""
