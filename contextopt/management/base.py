"""The base of all commands: `--json`, `--team`, exit codes, and errors that name the field at fault.

Exit codes: 0 done, 1 part of the input was rejected, 2 the call cannot be done as given, 130 interrupted, 141
the reader of standard output went away.
"""

import errno
import json
import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from django.core.exceptions import ObjectDoesNotExist
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import IntegrityError, OperationalError, ProgrammingError
from django.db.models import QuerySet
from psycopg.errors import UndefinedColumn, UndefinedTable
from pydantic_core import to_jsonable_python

from contextopt.engine.validation import EngineError, InvalidValue
from contextopt.errors import ContextoptError, FieldProblem, InvalidInput, NotFound
from contextopt.faults import WHOLE_INPUT
from contextopt.inputs import has_surrogate
from contextopt.locks import is_about_deleted
from contextopt.management.fields import option_name
from contextopt.people.models import Team
from contextopt.spaces.importing.files import quoted
from contextopt.spaces.models import Space

DONE = 0
REJECTED = 1
UNUSABLE = 2
INTERRUPTED = 130
READER_GONE = 141
ACTOR = "command"
NAMES_SHOWN = 10
# Names of fields: those of several words, and the word after "use".
FIELD_IN_TEXT = re.compile(r"""(?<![\w'"/.-])[a-z]+(?:_[a-z]+)+(?![\w'"/-])|(?<=\buse )[a-z]+\b""")
# The disk is full, or the quota or the limit of a file's size is reached.
WRITE_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


type Options = Mapping[str, Any]
"""The options and arguments of a call by name."""


class TextSink(Protocol):
    def write(self, msg: str, /) -> object: ...


class Progress:
    """Reports progress on standard error, at most every `seconds`."""

    def __init__(self, sink: TextSink, *, seconds: float = 2.0) -> None:
        self.sink = sink
        self.seconds = seconds
        self.last = time.monotonic()

    def show(self, text: str) -> None:
        now = time.monotonic()
        if now - self.last >= self.seconds:
            self.last = now
            self.sink.write(text)


class ReportingCommand(BaseCommand):
    """A command that answers on standard output, as text or JSON; all else goes to standard error.

    A subclass implements `run`, which returns the exit code, and may add options in `add_options`.
    """

    # The checks take longer than most commands. `manage.py check` and the tests run them.
    requires_system_checks = ()
    # Empty for a command that always works for all teams.
    team_help = "slug of the team (default: the default team)"

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--json", action="store_true", help="print JSON only: one object, or one per line"
        )
        if self.team_help:
            parser.add_argument("--team", metavar="SLUG", help=self.team_help)
        self.add_options(parser)
        self.parser = parser

    def add_options(self, parser: CommandParser) -> None:
        """Add the options that only this command takes."""

    def handle(self, *_: object, **options: Any) -> None:
        if (options.get("stdout") or sys.stdout) is None:
            raise CommandError("standard output is closed", returncode=UNUSABLE)
        with quiet_logs(options["verbosity"]), self._plain_notes():
            code = self._run_guarded(options)
        if code != DONE:
            sys.exit(code)

    @contextmanager
    def _plain_notes(self) -> Iterator[None]:
        """Leave progress, notes and questions uncoloured. Django shows all of standard error as errors."""
        as_error = self.stderr.style_func
        self.stderr.style_func = None
        try:
            yield
        finally:
            self.stderr.style_func = as_error

    def run(self, options: Options) -> int:
        raise NotImplementedError

    def how_far(self) -> str:
        """Say what was kept when a person or a failing database interrupted the work."""
        return "Interrupted; nothing was changed."

    def print_answer(self, options: Options, answer: Mapping[str, Any], text: str) -> None:
        """Print the answer as JSON if `--json` was given, otherwise its text."""
        if options["json"]:
            self.print_json(answer)
        else:
            self.stdout.write(text)

    def print_json(self, answer: Mapping[str, Any]) -> None:
        encoding = getattr(self.stdout, "encoding", None) or "utf-8"
        plain = encoding.lower().replace("-", "") != "utf8"
        self.stdout.write(json.dumps(answer, ensure_ascii=plain, default=to_jsonable_python))

    def _run_guarded(self, options: Options) -> int:
        try:
            code = self._run_named(options)
            self.stdout.flush()
        except BrokenPipeError:
            leave_stdout()
            return READER_GONE
        except OSError as error:
            if error.errno not in WRITE_FAULTS:
                raise
            leave_stdout()
            raise CommandError(f"writing failed: {error.strerror}", returncode=UNUSABLE) from error
        except KeyboardInterrupt:
            self.stderr.write(self.how_far())
            return INTERRUPTED
        except OperationalError as error:
            message = f"the database failed: {error}\n{self.how_far()}"
            raise CommandError(message, returncode=UNUSABLE) from error
        except (IntegrityError, ObjectDoesNotExist) as error:
            if not is_about_deleted(error):
                raise
            raise CommandError("it was deleted in the meantime", returncode=UNUSABLE) from error
        except ProgrammingError as error:
            if not isinstance(error.__cause__, UndefinedTable | UndefinedColumn):
                raise
            raise CommandError(
                "the database schema is out of date; run `manage.py migrate`", returncode=UNUSABLE
            ) from error
        return code

    def _run_named(self, options: Options) -> int:
        """Run the command. Errors of the call name the field, option or file at fault."""
        try:
            check_arguments(self.parser, options)
            return self.run(options)
        except (InvalidInput, InvalidValue) as error:
            faults: Sequence[FieldProblem | InvalidValue] = (
                error.problems if isinstance(error, InvalidInput) else [error]
            )
            lines = [f"{self._named(fault.field)}: {self._in_options(fault.message)}" for fault in faults]
            raise CommandError("\n".join(lines), returncode=UNUSABLE) from error
        except (EngineError, ContextoptError) as error:
            raise CommandError(self._in_options(str(error)), returncode=UNUSABLE) from error
        except OSError as error:
            # A file name that is too long, for example. Other system errors are not about the call.
            if error.filename is None:
                raise
            message = f"{quoted(str(error.filename))}: {error.strerror}"
            raise CommandError(message, returncode=UNUSABLE) from error

    def _named(self, field: str) -> str:
        """Return the argument that gives a field, if any. A fault of the whole input is the file's."""
        if field == WHOLE_INPUT:
            return "FILE"
        name, _, rest = field.partition(".")
        # A longer path lies in a file.
        if rest and not rest.isdecimal():
            return field
        option = option_name(name)
        if option in self.parser._option_string_actions:
            return option
        names = {action.dest: [*action.option_strings, action.metavar] for action in self.parser._actions}
        return next((str(each) for each in names.get(name, ()) if each), field)

    def _in_options(self, message: str) -> str:
        """Name the fields in a message by the options that give them. Quoted text is the caller's."""
        return FIELD_IN_TEXT.sub(lambda found: self._named(found[0]), message)


def check_arguments(parser: CommandParser, options: Options) -> None:
    """Refuse arguments with bytes that are not UTF-8, unless they name a file.

    Raises:
        InvalidInput: names the argument.
    """
    for action in parser._actions:
        value = options.get(action.dest)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and has_surrogate(text) and not Path(text).is_file():
                names = action.option_strings or [str(action.metavar or action.dest)]
                raise InvalidInput.of(names[-1], "contains bytes that are not UTF-8")


@contextmanager
def quiet_logs(verbosity: int) -> Iterator[None]:
    """Hide routine log events unless LOG_LEVEL or `--verbosity 2` asks for them."""
    loggers = [logging.getLogger(name) for name in ("contextopt", "memory")]
    before = [logger.level for logger in loggers]
    if verbosity < 2 and "LOG_LEVEL" not in os.environ:
        for logger in loggers:
            logger.setLevel(max(logger.level, logging.WARNING))
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def leave_stdout() -> None:
    """Discard buffered output: flushing it at exit would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def team_of(options: Options) -> Team:
    """Return the team that the command works in.

    Raises:
        InvalidInput: there is no such team.
    """
    slug = options["team"]
    if slug is None:
        return Team.objects.ensure_default()
    try:
        return Team.objects.get(slug=slug)
    except Team.DoesNotExist:
        raise InvalidInput.of("--team", f"there is no team {slug!r}") from None


def teams_of(options: Options) -> list[Team]:
    """Return the team that is named, or else all of them, the oldest first.

    Raises:
        InvalidInput: there is no such team.
    """
    if options["team"] is not None:
        return [team_of(options)]
    Team.objects.ensure_default()
    return list(Team.objects.order_by("pk"))


def space_of(team: Team, slug: str, *, field: str = "SPACE") -> Space:
    """Return the team's space with this slug.

    Raises:
        NotFound: there is none; the message names the existing ones.
    """
    space = Space.objects.of(team).filter(slug=slug).first()
    if space is not None:
        return space
    known = list_names(Space.objects.of(team).values_list("slug", flat=True))
    hint = f"; there are: {known}" if known else "; import_records creates one"
    raise NotFound(f"{field}: there is no space {slug!r}{hint}")


def more_in_json(count: int) -> list[str]:
    """Return the line that says how many further items only `--json` lists, if there are any."""
    return [f"and {count:,} more in --json"] if count > 0 else []


def list_names(names: QuerySet[Any, str]) -> str:
    """Return the first names, and the number of the others."""
    more = names.count() - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
