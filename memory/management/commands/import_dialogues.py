"""`manage.py import_dialogues FILE.json`"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.core.management.base import CommandParser
from django.utils.text import slugify

from contextopt.engine.wording import plural
from contextopt.errors import InvalidInput
from contextopt.management.base import ACTOR, DONE, REJECTED, Options, Progress, ReportingCommand, team_of
from contextopt.management.documents import FILE, read_whole
from contextopt.management.fields import parse_input
from contextopt.people.models import Team
from contextopt.spaces.importing.dialogues import (
    BYTES_MAX,
    SOURCE,
    TURN_TYPE,
    SpokenDialogue,
    parse_dialogues,
)
from contextopt.spaces.importing.pipeline import ImportReport, ensure_space, import_rows
from contextopt.spaces.importing.rows import RawRow
from contextopt.spaces.inputs import SpaceIn
from memory.questions.importing import import_questions
from memory.questions.sets import ensure_set

SET_NAME = "Dialogue"


@dataclass(frozen=True, slots=True)
class _Imported:
    space: str
    records: ImportReport
    questions: ImportReport

    @property
    def is_whole(self) -> bool:
        return not (self.records.rejected_count or self.questions.rejected_count)

    def to_json(self) -> dict[str, Any]:
        records, questions = self.records.to_json(), self.questions.to_json()
        return {"space": self.space, "set": SET_NAME, "records": records, "questions": questions}


class Command(ReportingCommand):
    help = (
        "Import conversations with questions, in the format of the LoCoMo benchmark. Each conversation "
        f"becomes a space whose records are its turns, with a question set named {SET_NAME}. Questions that "
        "the conversation does not answer are left out. Prints one line per conversation."
    )

    imported = 0

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar=FILE, help="also gzipped; - is standard input")
        parser.add_argument(
            "--dialogue", metavar="ID", action="append",
            help="import only this conversation, by its sample_id; repeatable",
        )  # fmt: skip

    def run(self, options: Options) -> int:
        team = team_of(options)
        dialogues = _choose(parse_dialogues(read_whole(options["file"], BYTES_MAX)), options["dialogue"])
        slugs = _name_spaces(dialogues)
        code = DONE
        progress = Progress(self.stderr)
        for number, (dialogue, slug) in enumerate(zip(dialogues, slugs, strict=True), start=1):
            place = f"conversation {number:,} of {len(dialogues):,}"
            done = _import(team, slug, dialogue, partial(_show, progress, place))
            self.imported += 1
            self.print_answer(
                options, done.to_json(), f"{done.space}: records {done.records}; questions {done.questions}"
            )
            if not done.is_whole:
                code = REJECTED
        return code

    def how_far(self) -> str:
        done = plural(self.imported, "conversation")
        return f"Interrupted after {done}. Run the same command again for the rest."


def _choose(dialogues: list[SpokenDialogue], names: list[str] | None) -> list[SpokenDialogue]:
    """Return the named conversations, or all of them.

    Raises:
        InvalidInput: a name is unknown.
    """
    if not names:
        return dialogues
    known = {dialogue.name for dialogue in dialogues}
    if strange := [name for name in names if name not in known]:
        raise InvalidInput.of("--dialogue", f"there is no conversation {strange[0]!r} in the file")
    return [dialogue for name in dict.fromkeys(names) for dialogue in dialogues if dialogue.name == name]


def _name_spaces(dialogues: list[SpokenDialogue]) -> list[str]:
    """Return the slug of each conversation's space.

    Raises:
        InvalidInput: a name gives no slug, or two conversations would share a space and replace each other.
    """
    names: dict[str, str] = {}
    for dialogue in dialogues:
        slug = parse_input(SpaceIn, {"slug": slugify(dialogue.name)[:64]}, {"slug": "sample_id"}).slug
        if slug in names:
            both = f"{names[slug]!r} and {dialogue.name!r}"
            raise InvalidInput.of("sample_id", f"{both} would both be the space {slug}; rename one of them")
        names[slug] = dialogue.name
    return list(names)


def _show(progress: Progress, place: str, report: ImportReport) -> None:
    progress.show(f"{place}: {report}")


def _import(
    team: Team, slug: str, dialogue: SpokenDialogue, on_batch: Callable[[ImportReport], None]
) -> _Imported:
    space = ensure_space(team=team, slug=slug, actor=ACTOR)
    records, questions = ImportReport(), ImportReport()
    import_rows(space=space, rows=_records(dialogue), actor=ACTOR, report=records, on_batch=on_batch)
    question_set, _ = ensure_set(space=space, name=SET_NAME, actor=ACTOR)
    import_questions(question_set=question_set, rows=_asked(dialogue), actor=ACTOR, report=questions)
    return _Imported(slug, records, questions)


def _records(dialogue: SpokenDialogue) -> Iterator[RawRow]:
    for number, turn in enumerate(dialogue.turns, start=1):
        fields: dict[str, object] = {
            "title": turn.speaker,
            "type": TURN_TYPE,
            "date": turn.said_at.isoformat(),
            "notes": turn.text,
            "thread": f"session-{turn.session}",
            "position": turn.position,
            "source": SOURCE,
            "external_id": turn.id,
        }
        yield RawRow(number, fields, len(turn.text))


def _asked(dialogue: SpokenDialogue) -> Iterator[RawRow]:
    as_of = dialogue.ended_at.isoformat()
    for number, question in enumerate(dialogue.questions, start=1):
        fields: dict[str, object] = {
            "id": number,
            "query": question.text,
            "expected": sorted(question.evidence),
            "answer": question.answer,
            "as_of": as_of,
        }
        yield RawRow(number, fields, len(question.text))
