"""`manage.py import_git SPACE REPO`"""

from collections.abc import Generator

from django.core.management.base import CommandParser

from contextopt.errors import InvalidInput
from contextopt.management.base import Options
from contextopt.management.importing import ImportCommand
from contextopt.spaces.importing.git import read_commits
from contextopt.spaces.importing.rows import Found


class Command(ImportCommand):
    help = (
        "Import the commits of a git repository on this machine as records: subject, date, message, "
        "author and files. The top-level folders a commit touches become its tags. Importing again adds "
        "new commits only."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("space", metavar="SPACE")
        parser.add_argument("repository", metavar="REPO", help="folder of the repository")
        parser.add_argument("--rev", default="HEAD", help="a branch, tag, commit or range (default: HEAD)")
        parser.add_argument("--limit", type=int, metavar="N", help="only the newest N commits")

    def rows(self, options: Options) -> Generator[Found]:
        limit = options["limit"]
        if limit is not None and limit < 1:
            raise InvalidInput.of("--limit", "must be at least 1")
        yield from read_commits(options["repository"], rev=options["rev"], limit=limit)
