"""Measures the product's bars on generated (or given) records, beside other ways to do the same."""
