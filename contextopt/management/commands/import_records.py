"""`manage.py import_records SPACE FILE…`"""

from collections.abc import Generator

from django.core.management.base import CommandParser

from contextopt.management.base import Options
from contextopt.management.importing import ImportCommand
from contextopt.spaces.importing.files import check_input, open_input, read_file, readable
from contextopt.spaces.importing.rows import Found


class Command(ImportCommand):
    help = (
        "Import records from JSONL or CSV files. The space is created if it does not exist. Rows are "
        "matched by source and external_id, or by content if they have none, so importing twice changes "
        "nothing. Unknown fields are stored in the metadata."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("space", metavar="SPACE")
        parser.add_argument(
            "files",
            metavar="FILE",
            nargs="+",
            help="a .jsonl or .csv file, also gzipped; - is standard input",
        )
        parser.add_argument(
            "--format",
            choices=["jsonl", "csv"],
            help="file format (default: from the file name or first character)",
        )

    def rows(self, options: Options) -> Generator[Found]:
        names: list[str] = options["files"]
        for name in names:
            check_input(name, folder_advice="import_markdown and import_git take folders")
        for name in names:
            with open_input(name) as stream:
                label = readable(name) if len(names) > 1 else ""
                yield from read_file(stream, name, file=label, format=options["format"])
