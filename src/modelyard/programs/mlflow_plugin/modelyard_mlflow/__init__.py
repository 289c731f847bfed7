"""MLflow plugin of modelyard: callers are known by their Kubernetes token, workspaces are namespaces."""
