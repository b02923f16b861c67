"""The base of the import commands: the space, progress, the report and the exit code."""

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice

from django.core.management.base import CommandParser

from contextopt.errors import InvalidInput
from contextopt.management.base import ACTOR, DONE, REJECTED, Options, Progress, ReportingCommand, team_of
from contextopt.management.fields import parse_input
from contextopt.spaces.importing.charsets import check_encoding
from contextopt.spaces.importing.csvfiles import AUTHOR
from contextopt.spaces.importing.pipeline import RECORD_FIELDS, ImportReport, ensure_space, import_rows
from contextopt.spaces.importing.rows import LEFT_OUT, Found, ReadOptions
from contextopt.spaces.inputs import SpaceIn

REJECTIONS_SHOWN = 20
DATE_ORDERS = {"day-first": False, "month-first": True}


def add_reading_options(parser: CommandParser) -> None:
    """Add the options that say how tables and other files are read."""
    parser.add_argument(
        "--encoding", metavar="NAME", default="", help="text encoding (default: it is recognised)"
    )
    parser.add_argument(
        "--dates", choices=list(DATE_ORDERS),
        help="order of dates such as 03/04/2026 (default: as other dates in the file show, or as the team's "
        "settings say)",
    )  # fmt: skip
    parser.add_argument(
        "--column", metavar="NAME=FIELD", action="append", default=[],
        help=f"import a column as this field, as metadata, or not at all ({LEFT_OUT}); repeatable",
    )  # fmt: skip


def reading_options(options: Options) -> ReadOptions:
    """Return how files are read: as the options say, with times in the team's zone.

    Raises:
        InvalidInput: an encoding or a field is unknown.
    """
    order = options.get("dates")
    columns: dict[str, str] = {}
    for given in options.get("column") or ():
        name, equals, target = given.rpartition("=")
        if not name or not equals or target not in {*RECORD_FIELDS, AUTHOR, LEFT_OUT}:
            raise InvalidInput.of("--column", f"{given[:80]!r} is not NAME=FIELD with a field of records")
        columns[name] = target
    return replace(
        ReadOptions.of(team_of(options)),
        month_first=DATE_ORDERS[order] if order else None,
        encoding=check_encoding(options.get("encoding") or ""),
        columns=columns,
    )


class ReportOfImport(ReportingCommand):
    """A command whose answer is the report of an import."""

    report: ImportReport

    def how_far(self) -> str:
        return f"Interrupted. {self.report}. Run the same command again to import the rest."

    def to_json(self) -> Mapping[str, object]:
        return self.report.to_json()

    def answer_report(self, options: Options) -> None:
        if options["json"]:
            self.print_json(self.to_json())
        else:
            self.stdout.write(str(self.report))
            for rejection in self.report.rejected[:REJECTIONS_SHOWN]:
                self.stderr.write(f"rejected {rejection}")
        listed = len(self.report.rejected) if options["json"] else REJECTIONS_SHOWN
        if (more := self.report.rejected_count - listed) > 0:
            hint = "" if options["json"] else " (--json lists them)"
            self.stderr.write(f"{more:,} more rows were rejected{hint}.")


class ImportCommand(ReportOfImport):
    """A command that imports rows into a space. A subclass yields them in `rows`."""

    def rows(self, options: Options) -> Generator[Found]:
        """Yield the rows. Errors that make the whole call unusable are raised before the first row."""
        raise NotImplementedError

    def to_json(self) -> Mapping[str, object]:
        return {**self.report.to_json(), "left_out": self.report.left_out}

    def run(self, options: Options) -> int:
        self.report = ImportReport()
        slug = parse_input(SpaceIn, {"slug": options["space"]}, {"slug": "SPACE"}).slug
        team = team_of(options)
        progress = Progress(self.stderr)
        with closing(self.rows(options)) as rows:
            # Start reading before the space is created, so that a failing call leaves nothing behind.
            first = list(islice(rows, 1))
            import_rows(
                space=ensure_space(team=team, slug=slug, actor=ACTOR),
                rows=chain(first, rows),
                actor=ACTOR,
                report=self.report,
                on_batch=lambda report: progress.show(str(report)),
            )
        self.answer_report(options)
        if not options["json"]:
            for notice in self.report.notices.values():
                self.stderr.write(f"note: {notice}")
        if names := sorted(self.report.kept_in_metadata):
            self.stderr.write(
                f"Stored in metadata, because records have no such fields: {', '.join(names[:20])}."
            )
        return REJECTED if self.report.rejected_count else DONE
