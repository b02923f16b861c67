"""Votes on answers, and what they say of strategies."""
