"""The controller runtime: caches, queue, engine, manager, webhooks."""
