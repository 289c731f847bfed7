"""Kubernetes as a client sees it: kinds, names, errors, a REST client, schemas and CRDs from types."""
