"""The admin, by concept. Where pages or the API apply rules, the admin calls the same functions."""

from contextopt.admin import (
    assemblies,
    audit,
    configs,
    conversations,
    embeddings,
    gateway,
    handoffs,
    people,
    phases,
    repositories,
    search,
    spaces,
    tasks,
)

__all__ = [
    "assemblies", "audit", "configs", "conversations", "embeddings", "gateway", "handoffs", "people",
    "phases", "repositories", "search", "spaces", "tasks",
]  # fmt: skip
