"""Admission: what looks at a write before it is kept, and may change or refuse it."""
