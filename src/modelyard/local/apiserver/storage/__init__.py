"""Where objects are: in memory, in order of their versions, and durable in one SQLite file."""
