"""Chat, people's votes, and review."""
