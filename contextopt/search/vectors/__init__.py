"""Vectors of texts: stored, filled, indexed and compared in PostgreSQL."""
