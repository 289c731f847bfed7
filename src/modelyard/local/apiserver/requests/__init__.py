"""A request's way through the server: read, understood, checked and answered."""
