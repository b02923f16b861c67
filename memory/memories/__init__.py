"""Memories of a team: facts, decisions and error patterns."""
