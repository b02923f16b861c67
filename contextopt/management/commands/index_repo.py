"""`manage.py index_repo REPO`"""

from django.core.management.base import CommandParser

from contextopt.engine.wording import plural
from contextopt.errors import InvalidInput
from contextopt.management.base import ACTOR, DONE, Options, Progress, ReportingCommand, more_in_json, team_of
from contextopt.management.repositories import target, warn_if_shallow
from contextopt.repositories.indexing import IndexReport, index_checkout

LISTED = 20


class Command(ReportingCommand):
    help = (
        "Index a git repository or folder on this machine: definitions, imports and history. Later runs "
        "parse only changed files. A folder inside a repository is indexed as plain files, without "
        "history. The repository gets the folder's name. If that is generic, such as `repo`, it gets the "
        "name of the origin remote, or of a parent folder."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument(
            "repository", metavar="REPO", help="a folder, or the name of an indexed repository"
        )
        parser.add_argument("--rev", help="a branch, tag or commit (default: HEAD)")

    def run(self, options: Options) -> int:
        team = team_of(options)
        progress = Progress(self.stderr)
        with target(team, options["repository"]) as found:
            if found.checkout is None:
                why = (
                    "was uploaded"
                    if found.repository and found.repository.is_posted
                    else "is no longer in its folder"
                )
                raise InvalidInput.of("REPO", f"{options['repository']!r} {why}, so there is nothing to read")
            report = index_checkout(
                team=team, checkout=found.checkout, rev=options["rev"], actor=ACTOR, on_progress=progress.show
            )
            warn_if_shallow(self, found.checkout)
        self.print_answer(options, report.to_json(), describe_report(report))
        return DONE

    def how_far(self) -> str:
        return "Interrupted. Parsed files are kept. Run the same command again to continue."


def describe_report(report: IndexReport) -> str:
    """Return the repository's figures, then what was skipped or not resolved."""
    repository = report.repository
    at = f" at {repository.revision[:12]}" if repository.revision else ""
    skipped = [f"skipped {path}: {reason}" for path, reason in report.skipped]
    unresolved = [f"unresolved {each.path}:{each.line}: {each.target}" for each in report.graph.unresolved]
    listed = [*skipped[:LISTED], *unresolved[:LISTED]]
    figures = (
        f"{repository.name}{at}: {plural(repository.files, 'file')}, "
        f"{plural(repository.symbols, 'symbol')}, {plural(repository.imports, 'import')} between them, "
        f"{repository.unresolved:,} unresolved\n"
        f"{len(skipped):,} skipped; {report.changed:,} changed, {report.removed:,} removed, "
        f"{plural(repository.parsed, 'file')} parsed in {repository.seconds:.2f} s"
    )
    more = more_in_json(len(skipped) + len(unresolved) - len(listed))
    return "\n".join([figures, *listed, *more])
