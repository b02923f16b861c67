"""Measures the product against its bars, on generated or given records, and compares it with other tools."""
