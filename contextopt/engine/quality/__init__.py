"""Measures the quality of contexts and answers."""
