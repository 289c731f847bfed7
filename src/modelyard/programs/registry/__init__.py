"""The model registry's server: REST API on SQLite, PostgreSQL or MySQL."""
