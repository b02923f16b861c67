"""`manage.py import_markdown SPACE DIR`"""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandParser

from contextopt.management.importing import ImportCommand
from contextopt.spaces.importing import Found, read_folder


class Command(ImportCommand):
    help = (
        "Import every Markdown file below a folder as a record. Front matter gives title, date, tags, type "
        "and pinned; without it the first heading is the title, and the last commit or change the date."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("space", metavar="SPACE")
        parser.add_argument("folder", metavar="DIR")

    def rows(self, options: Mapping[str, Any]) -> Iterator[Found]:
        yield from read_folder(options["folder"])
