"""What a test bench needs of a server: a fixture, and faults on demand."""
