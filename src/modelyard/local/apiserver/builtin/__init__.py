"""The built-in kinds: how they are served, their defaults and their rules."""
