"""Programs that run inside the server's image. They may use only what that image has: Python and MLflow."""
