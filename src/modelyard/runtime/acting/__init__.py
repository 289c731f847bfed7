"""Passes: keys from the queue, what should be true, and the least writes that make it true."""
