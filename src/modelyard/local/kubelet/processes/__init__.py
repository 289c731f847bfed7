"""Containers as processes: the keeper that owns them, the line to it, and what they see and may do of this machine."""
