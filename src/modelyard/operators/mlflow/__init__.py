"""MLflow: the tracking server and model registry of the platform, from one cluster-scoped resource named `mlflow`."""
