"""Spaces of records with versioned settings; every write of a record goes through `records`."""
