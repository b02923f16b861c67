"""Measures the product's bars on generated or given records, next to other ways to do the same."""
