"""The team, its members and keys, and the log of changes."""
