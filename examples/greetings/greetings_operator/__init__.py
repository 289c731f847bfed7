"""A small operator that uses every part of the runtime: an example to read, and what the chaos tests run."""
