"""Model registries: a metadata server for each `ModelRegistry`, with its database, its proxy and its way in."""
