"""Commands that answer many questions: one JSON object per line, rejected lines on standard error."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from contextopt.engine.text.errors import InvalidValue
from contextopt.engine.wording import plural
from contextopt.errors import PRODUCT_ERRORS, FieldProblem, InvalidInput
from contextopt.inputs import Text, field_problems
from contextopt.management.base import DONE, REJECTED, Progress, ReportingCommand
from contextopt.spaces.importing import RawRow, Rejection, check_input, open_input, read_file

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
