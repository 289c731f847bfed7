"""Documents about the server itself: discovery, health, metrics and the way to OpenAPI."""
