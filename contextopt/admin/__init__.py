"""The admin, by concept. Where pages or the API apply rules, the admin calls the same functions."""

from contextopt.admin import agents, assemblies, configs, people, spaces, tables

__all__ = ["agents", "assemblies", "configs", "people", "spaces", "tables"]
