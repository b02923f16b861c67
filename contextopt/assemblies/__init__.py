"""Decides what goes into one prompt, and logs the decision."""
