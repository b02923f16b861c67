"""What was learned: memories, strategies, hints, decay, feedback, review."""
