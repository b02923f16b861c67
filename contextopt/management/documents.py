"""Commands that read one JSON document: a file, or `-` for standard input."""

import json
from collections.abc import Callable

from django.core.management.base import CommandParser
from pydantic import BaseModel, ValidationError

from contextopt.agents.inputs import CONTEXT_CHARS_MAX
from contextopt.engine.text.counters import COUNTERS
from contextopt.errors import FieldProblem, InvalidInput
from contextopt.faults import WHOLE_INPUT
from contextopt.inputs import field_problems
from contextopt.management.base import ReportingCommand
from contextopt.spaces.importing import check_input, open_input
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
        faults = field_problems(error)[:FAULTS_SHOWN]
        raise InvalidInput([_named(fault) for fault in faults]) from error


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


def _named(fault: FieldProblem) -> FieldProblem:
    return FieldProblem(FILE, fault.message) if fault.field == WHOLE_INPUT else fault


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
