"""Shared parts of all endpoints: keys, errors, pages, repeated writes, bodies and responses."""
