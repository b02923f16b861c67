"""The admin, by concept. Where pages or the API apply rules, the admin calls the same functions."""

from contextopt.admin import (
    access,
    assemblies,
    audit,
    configs,
    conversations,
    embeddings,
    gateway,
    handoffs,
    phases,
    repositories,
    search,
    spaces,
    tasks,
)

__all__ = [
    "access", "assemblies", "audit", "configs", "conversations", "embeddings", "gateway", "handoffs",
    "phases", "repositories", "search", "spaces", "tasks",
]  # fmt: skip
