"""Imports records from files, Markdown folders and git repositories.

A reader turns its source into raw rows (`jsonl`, `tables`, `markdown`, `git`). `pipeline` checks the rows and
writes them in batches. A row that cannot be used is reported with its line and never stops the rest.
Importing the same source twice changes nothing.
"""

from contextopt.spaces.importing.files import check_input, open_input, read_file, readable
from contextopt.spaces.importing.git import read_commits
from contextopt.spaces.importing.markdown import read_folder
from contextopt.spaces.importing.pipeline import ImportReport, ensure_space, import_rows
from contextopt.spaces.importing.rows import Found, RawRow, Rejection, UnusableSource

__all__ = [
    "Found",
    "ImportReport",
    "RawRow",
    "Rejection",
    "UnusableSource",
    "check_input",
    "ensure_space",
    "import_rows",
    "open_input",
    "read_commits",
    "read_file",
    "read_folder",
    "readable",
]
