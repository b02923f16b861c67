"""Repositories of code: their index in the database, and the files that a task needs."""
