"""Spaces of records with versioned settings. Every write of a record goes through `records`."""
