"""The server's doors: sockets with TLS, plain HTTP, upgrades, and a door for callers in the same process."""
