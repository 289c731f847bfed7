"""Servers of our own behind upstream's image names. A program runs in its own environment and imports no other room of modelyard."""
