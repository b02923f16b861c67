"""Spaces, their records and settings, and search."""
