"""Serving certificates for the Services of all operators, where no one else issues them: one issuer at a time."""
