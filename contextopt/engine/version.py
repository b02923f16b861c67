"""The version of the engine's decisions, which is logged with every assembly."""

ENGINE_VERSION = 12
"""Raise it with every change after which the same inputs may give another text, ledger or count: scoring,
ranking, duplicates, passages, rendering, packing, and how the caller reads texts for it. Then record the
golden contexts again; a test fails until both are done.
"""
