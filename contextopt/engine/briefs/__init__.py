"""Findings and their briefs. Pure."""
