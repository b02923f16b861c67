"""Findings of a task's phases, and the briefs that one phase hands to the next."""
