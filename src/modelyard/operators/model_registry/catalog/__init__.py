"""The model catalog: one shared, read-only service over curated lists of models. No custom resource drives it."""
