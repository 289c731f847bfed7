"""The network of a laptop cluster on one loopback: pod and Service addresses, names, forwarding, and the HTTPS gateway."""
