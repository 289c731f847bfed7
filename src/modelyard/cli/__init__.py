"""The command line: ties the other packages together."""
