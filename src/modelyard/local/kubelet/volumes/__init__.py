"""A pod's volumes: their directories, the files in them that change, their limits, and paths that nobody can lead astray."""
