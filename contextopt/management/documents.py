"""Commands that read JSON: one document, or one question per line. `-` is standard input."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from django.core.management.base import CommandParser
from pydantic import BaseModel, ValidationError

from contextopt.agents.inputs import CONTEXT_CHARS_MAX
from contextopt.engine.text.tokens import COUNTERS
from contextopt.engine.validation import InvalidValue
from contextopt.engine.wording import plural
from contextopt.errors import PRODUCT_ERRORS, FieldProblem, InvalidInput
from contextopt.faults import WHOLE_INPUT
from contextopt.inputs import Text, field_problems
from contextopt.management.base import DONE, REJECTED, Progress, ReportingCommand
from contextopt.spaces.importing.files import check_input, open_input, read_file
from contextopt.spaces.importing.rows import RawRow, Rejection
from contextopt.strictjson import read_json

# Room for two versions of every text; a character takes at most six bytes, when escaped.
DOCUMENT_BYTES_MAX = 12 * CONTEXT_CHARS_MAX
FAULTS_SHOWN = 20
FILE = "FILE.json"
"""The document's name in the usage of these commands."""


class DocumentCommand(ReportingCommand):
    """A command that reads one document and counts tokens."""

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE.json", help="- is standard input")
        parser.add_argument(
            "--counter", choices=COUNTERS, default="tokenizer",
            help="tokenizer counts the exact text (default); heuristic counts four characters per token",
        )  # fmt: skip
        parser.add_argument("--encoding", metavar="NAME", default="cl100k_base", help="default: cl100k_base")
        parser.add_argument("--no-log", action="store_true", help="don't log the saving")


def read_document[Model: BaseModel](
    model: type[Model], name: str, complete: Callable[[object], object] = lambda document: document
) -> Model:
    """Read the document, complete it, and validate it.

    Raises:
        UnusableSource: the file does not exist or may not be read.
        InvalidInput: it is not JSON, or some fields were refused; each is named.
    """
    content = read_whole(name, DOCUMENT_BYTES_MAX)
    try:
        return model.model_validate(complete(_parse(content)))
    except ValidationError as error:
        faults = [
            FieldProblem(FILE, fault.message) if fault.field == WHOLE_INPUT else fault
            for fault in field_problems(error)[:FAULTS_SHOWN]
        ]
        raise InvalidInput(faults) from error


def read_whole(name: str, most: int) -> bytes:
    """Return the bytes of a file or of standard input.

    Raises:
        UnusableSource: the file does not exist or may not be read.
        InvalidInput: it is longer than `most` bytes.
    """
    check_input(name)
    with open_input(name) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise InvalidInput.of(FILE, f"is longer than {most:,} bytes")
    return content


def _parse(content: bytes) -> object:
    try:
        return read_json(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        fault = "is not UTF-8 text"
    except json.JSONDecodeError as error:
        fault = f"is not JSON: {error.msg} at line {error.lineno}, character {error.colno}"
    except RecursionError:
        fault = "is nested too deep"
    except ValueError as error:
        fault = str(error)
    raise InvalidInput.of(FILE, fault)


type Answer = Callable[[Mapping[str, object]], dict[str, Any]]


class LineId(BaseModel):
    """The id of a line of questions if it is text. The answer repeats it."""

    id: Text


class AnsweringCommand(ReportingCommand):
    """A command that can read its questions from a file."""

    answered = 0

    def how_far(self) -> str:
        return f"Interrupted after {plural(self.answered, 'answer')}."

    def answer_lines(self, name: str, answer: Answer, *, space: str | None = None) -> int:
        """Print the answer to each line of a JSONL file with the line's id; return the exit code.

        `answer` gets the line's fields except its id, without nulls. It may raise the same errors as a single
        call. A line that names another space than the command's is rejected.
        """
        check_input(name)
        rejected = 0
        lines: dict[int | str, int] = {}
        progress = Progress(self.stderr)
        with open_input(name) as stream:
            for row in read_file(stream, name, format="jsonl"):
                found = row if isinstance(row, Rejection) else _answer_row(row, answer, space, lines)
                if isinstance(found, Rejection):
                    rejected += 1
                    self.stderr.write(f"rejected {found}")
                else:
                    self.answered += 1
                    self.print_json(found)
                progress.show(f"{self.answered:,} answered, {rejected:,} rejected")
        return REJECTED if rejected else DONE


def _answer_row(
    row: RawRow, answer: Answer, space: str | None, lines: dict[int | str, int]
) -> dict[str, Any] | Rejection:
    """Answer a line, or reject it. `lines` has the first line of each id."""
    own = {name: value for name, value in row.fields.items() if value is not None}
    try:
        line_id = _read_id(own.pop("id", None))
        if (first := lines.setdefault(line_id, row.line)) != row.line:
            raise InvalidInput.of("id", f"repeats the ID of line {first}")
        if space is not None and own.pop("space", space) != space:
            raise InvalidInput.of("space", f"must be {space}, the command's space, or be omitted")
        return {"id": line_id, **answer(own)}
    except ValidationError as error:
        return _reject(row, field_problems(error)[0])
    except InvalidInput as error:
        return _reject(row, error.problems[0])
    except InvalidValue as error:
        return _reject(row, FieldProblem(error.field, error.message))
    except PRODUCT_ERRORS as error:
        return _reject(row, FieldProblem("row", str(error)))


def _read_id(value: object) -> int | str:
    """Return a line's id.

    Raises:
        InvalidInput: it is missing, or neither text nor a whole number.
        ValidationError: its text cannot be stored.
    """
    if isinstance(value, str):
        return LineId(id=value).id
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise InvalidInput.of("id", "is missing" if value is None else "must be text or a whole number")


def _reject(row: RawRow, problem: FieldProblem) -> Rejection:
    # For a field that takes several types, the rest of the name is only a type.
    return Rejection(row.line, problem.field.removeprefix("--").split(".")[0], problem.message)
