"""Subresources with a life of their own: tokens, logs, exec, binding."""
