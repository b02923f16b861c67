"""`manage.py import_markdown SPACE DIR`"""

from collections.abc import Generator

from django.core.management.base import CommandParser

from contextopt.management.base import Options
from contextopt.management.importing import ImportCommand, reading_options
from contextopt.spaces.importing.markdown import read_folder
from contextopt.spaces.importing.rows import Found


class Command(ImportCommand):
    help = (
        "Import every Markdown file in a folder as a record. Front matter in YAML or TOML sets title, "
        "created or date, tags, type and pinned. Without it, the title is the first heading and the date is "
        "that of the last commit or change. Times without an offset are in the team's time zone."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("space", metavar="SPACE")
        parser.add_argument("folder", metavar="DIR")

    def rows(self, options: Options) -> Generator[Found]:
        yield from read_folder(options["folder"], reading_options(options))
