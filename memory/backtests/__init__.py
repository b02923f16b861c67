"""Backtests: the last contexts of a space computed again under a draft."""
