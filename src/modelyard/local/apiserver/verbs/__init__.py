"""What requests do to objects: get, list, watch, create, update, patch, apply, delete and scale."""
