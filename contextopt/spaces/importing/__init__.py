"""Imports records from files, Markdown folders and git repositories.

A reader turns its source into raw rows (`files`, `csvfiles`, `markdown`, `git`). `pipeline` checks the rows
and writes them in batches. A row that cannot be used is reported with its line and never stops the rest.
Importing the same source twice changes nothing.
"""
