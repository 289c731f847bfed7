"""The laptop cluster's commands: `up`, `down` and what belongs to them."""
