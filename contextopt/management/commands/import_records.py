"""`manage.py import_records SPACE FILE…`"""

from argparse import SUPPRESS
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from django.core.management.base import CommandParser

from contextopt.importing import ImportReport, UnusableSource, import_rows, open_input, read_file
from contextopt.management.base import ACTOR
from contextopt.management.importing import ImportCommand


class Command(ImportCommand):
    help = (
        "Import records from JSONL or CSV files. The space is made if it is missing. A row is known again by "
        "source and external_id, or by its content when it has none, so importing twice changes nothing. "
        "Fields that records do not have are kept in their metadata."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("space", metavar="SPACE")
        parser.add_argument(
            "files", metavar="FILE", nargs="+", help="a .jsonl or .csv file, also gzipped; - is standard input"
        )
        parser.add_argument(
            "--format", choices=["jsonl", "csv"], help="instead of what the name or first character says"
        )
        parser.add_argument("--batch", type=int, help=SUPPRESS)

    def run(self, options: Mapping[str, Any]) -> int:
        files: Sequence[str] = options["files"]
        for name in dict.fromkeys(files):
            _refuse_unreadable(name)
        space = self.ensure_space(options)
        for name in files:
            self.import_file(space, name, options)
        return self.finish(options)
