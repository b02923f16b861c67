"""Answers that people review, each by one person at a time."""
