"""The base of the import commands: the space, progress, the report and the exit code."""

from collections.abc import Generator
from contextlib import closing
from itertools import chain, islice

from contextopt.management.base import ACTOR, DONE, REJECTED, Options, Progress, ReportingCommand, team_of
from contextopt.management.fields import parse_input
from contextopt.spaces.importing.pipeline import ImportReport, ensure_space, import_rows
from contextopt.spaces.importing.rows import Found
from contextopt.spaces.inputs import SpaceIn

REJECTIONS_SHOWN = 20


class ReportOfImport(ReportingCommand):
    """A command whose answer is the report of an import."""

    report: ImportReport

    def how_far(self) -> str:
        return f"Interrupted. {self.report}. Run the same command again to import the rest."

    def answer_report(self, options: Options) -> None:
        if options["json"]:
            self.print_json(self.report.to_json())
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
        if names := sorted(self.report.kept_in_metadata):
            self.stderr.write(
                f"Stored in metadata, because records have no such fields: {', '.join(names[:20])}."
            )
        return REJECTED if self.report.rejected_count else DONE
