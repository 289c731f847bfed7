"""Modelyard: an ML platform's control plane for Kubernetes, from a laptop to a cluster."""

__version__ = "0.1.0"
