"""Decides what goes into a prompt, within a token budget, and proves why."""
