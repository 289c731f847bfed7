"""Which resources the server serves, and the rules of each."""
