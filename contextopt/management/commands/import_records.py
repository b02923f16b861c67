"""`manage.py import_records SPACE FILE…`"""

from collections.abc import Generator

from django.core.management.base import CommandParser

from contextopt.management.base import Options
from contextopt.management.importing import ImportCommand, add_reading_options, reading_options
from contextopt.spaces.importing.files import check_input, readable
from contextopt.spaces.importing.formats import FORMATS, read_path
from contextopt.spaces.importing.rows import Found


class Command(ImportCommand):
    help = (
        "Import records from tables, JSON, exports of chats, notes, or folders and archives of them. The "
        "space is created if it does not exist. Rows are matched by source and external_id, or by content "
        "if they have none, so importing twice changes nothing. Unknown fields are stored in the metadata."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("space", metavar="SPACE")
        parser.add_argument(
            "files",
            metavar="FILE",
            nargs="+",
            help="a file, also gzipped, a folder, or a zip or tar archive; - is standard input",
        )
        parser.add_argument(
            "--format", choices=list(FORMATS), default="", help="the format (default: it is recognised)"
        )
        add_reading_options(parser)

    def rows(self, options: Options) -> Generator[Found]:
        names: list[str] = options["files"]
        how = reading_options(options)
        for name in names:
            check_input(name, is_folder_allowed=True)
        for name in names:
            label = readable(name) if len(names) > 1 else ""
            yield from read_path(name, how, file=label, format=options["format"])
