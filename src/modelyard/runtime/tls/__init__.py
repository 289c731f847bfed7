"""Serving certificates: made, rotated, and handed to those who need them."""
