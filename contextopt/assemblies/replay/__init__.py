"""Computes logged assemblies again, under the same or other settings, and explains their decisions."""
