"""Rank the files of a repository for a task, and fit them into a budget. Pure."""
