"""The laptop cluster: an API server, workload controllers and pods as processes."""
