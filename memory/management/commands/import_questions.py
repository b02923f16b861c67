"""`manage.py import_questions SPACE FILE.jsonl`"""

from django.core.management.base import CommandParser

from contextopt.management.base import ACTOR, DONE, REJECTED, Options, space_of, team_of
from contextopt.management.fields import parse_input
from contextopt.management.importing import ReportOfImport
from contextopt.spaces.importing.files import check_input, open_input, read_file
from contextopt.spaces.importing.pipeline import ImportReport
from memory.questions.importing import import_questions
from memory.questions.inputs import QuestionSetIn
from memory.questions.sets import ensure_set

DEFAULT_NAME = "Questions"


class Command(ReportOfImport):
    help = (
        "Import questions with the records that answer them, one JSON object per line: "
        '{"id", "query", "expected": [external IDs], "answer", "as_of"}. The question set is created if it '
        "does not exist. Questions are matched by ID, so importing twice changes nothing."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("space", metavar="SPACE")
        parser.add_argument("file", metavar="FILE.jsonl", help="also gzipped; - is standard input")
        parser.add_argument(
            "--questions", metavar="NAME", default=DEFAULT_NAME,
            help=f"name of the question set (default: {DEFAULT_NAME})",
        )  # fmt: skip

    def run(self, options: Options) -> int:
        self.report = ImportReport()
        name = parse_input(QuestionSetIn, {"name": options["questions"]}, {"name": "--questions"}).name
        space = space_of(team_of(options), options["space"])
        check_input(options["file"])
        with open_input(options["file"]) as stream:
            question_set, _ = ensure_set(space=space, name=name, actor=ACTOR)
            ignored = import_questions(
                question_set=question_set,
                rows=read_file(stream, options["file"], format="jsonl"),
                actor=ACTOR,
                report=self.report,
            )
        self.answer_report(options)
        if ignored:
            self.stderr.write(
                f"Ignored, because questions have no such fields: {', '.join(sorted(ignored))}."
            )
        return REJECTED if self.report.rejected_count else DONE
