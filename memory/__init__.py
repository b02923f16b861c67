"""Lessons learned: memories, strategies, hints, decay, feedback, review."""
