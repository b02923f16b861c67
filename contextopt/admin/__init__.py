"""The admin, by concept. What a page or the API decides by rules, the admin decides by the same functions."""

from contextopt.admin import (
    access,
    assemblies,
    audit,
    configs,
    conversations,
    embeddings,
    handoffs,
    phases,
    repositories,
    search,
    spaces,
    tasks,
)

__all__ = [
    "access", "assemblies", "audit", "configs", "conversations", "embeddings", "handoffs", "phases",
    "repositories", "search", "spaces", "tasks",
]  # fmt: skip
