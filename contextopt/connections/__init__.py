"""Connects coding agents: entries in their own files, and the hooks that these run."""
