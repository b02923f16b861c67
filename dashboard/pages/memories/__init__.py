"""Memories and strategies."""
