"""Modelyard: an ML platform's control plane for Kubernetes, from a laptop to a cluster."""
