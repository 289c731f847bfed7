"""The real Kubernetes servers for the tests: built once from source into a cache, started on free loopback ports."""
