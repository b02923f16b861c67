"""Reads the front matter of notes: YAML between lines of `---`, or TOML between lines of `+++`."""

import re
import tomllib
from datetime import date, time
from typing import NamedTuple

import yaml
from frontmatter.default_handlers import YAMLHandler

FRONT_MATTER_MAX = 2**16
NODES_MAX = 5_000
DEPTH_MAX = 50
FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*$", re.DOTALL | re.MULTILINE)
TOML_FRONT_MATTER = re.compile(r"\A\+\+\+[ \t]*\n(.*?)^\+\+\+[ \t]*$", re.DOTALL | re.MULTILINE)
_PROPERTY = re.compile(r"([^\s:#\-][^:\n]{0,200}):[ \t]+(\S.*)")


class FrontMatter(NamedTuple):
    """A note's properties as JSON values, the text after them, and what is wrong with them, if anything."""

    properties: dict[str, object]
    body: str
    fault: str = ""
    line: int = 1


class UnreadableProperties(Exception):
    """The front matter is damaged or too large. `line` is counted from the start of the file."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


def split_front_matter(text: str) -> FrontMatter:
    """Return the properties and the text. Front matter that is not a mapping counts as text.

    If the front matter is damaged, its plain lines (`name: value`) are read one by one.
    """
    found = FRONT_MATTER.match(text) or TOML_FRONT_MATTER.match(text)
    if found is None:
        return FrontMatter({}, text.strip())
    body = text[found.end() :].strip()
    try:
        if found.end() > FRONT_MATTER_MAX:
            raise UnreadableProperties(f"is longer than {FRONT_MATTER_MAX:,} characters")
        loaded = _load_toml(found[1]) if text.startswith("+") else _load_yaml(found[1])
        if loaded is None:
            return FrontMatter({}, body)
        if not isinstance(loaded, dict):
            # A page may begin with a paragraph between rules, which is not front matter.
            return FrontMatter({}, text.strip())
        values = _JsonValues()
        own = {str(key).strip(): values.convert(value) for key, value in loaded.items()}
    except UnreadableProperties as error:
        return FrontMatter(_plain_properties(found[1][:FRONT_MATTER_MAX]), body, str(error), error.line)
    return FrontMatter(own, body)


def _load_yaml(text: str) -> object:
    try:
        return YAMLHandler().load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise UnreadableProperties(f"is not YAML: {error.problem}", line) from error
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError, TypeError) as error:
        raise UnreadableProperties(f"cannot be read: {error}") from error


def _load_toml(text: str) -> object:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableProperties(f"is not TOML: {error}") from error


def _plain_properties(text: str) -> dict[str, object]:
    """Return the lines of the form `name: value`, with their values as texts."""
    found = (_PROPERTY.fullmatch(line.rstrip()) for line in text.split("\n"))
    return {
        each[1].strip(): each[2].strip().strip("\"'") for each in list(found)[:NODES_MAX] if each is not None
    }


class _JsonValues:
    """Converts values to JSON values, up to a limit on their number and depth.

    A few hundred bytes of YAML aliases can expand to more values than fit in memory, or contain themselves.
    """

    def __init__(self) -> None:
        self.left = NODES_MAX

    def convert(self, value: object, depth: int = 0) -> object:
        self.left -= 1
        if self.left < 0 or depth > DEPTH_MAX:
            raise UnreadableProperties("is nested too deep or repeats itself too often")
        if isinstance(value, dict):
            return {str(key): self.convert(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set):
            return [self.convert(item, depth + 1) for item in value]
        if isinstance(value, date | time):
            return value.isoformat()
        if value is None or isinstance(value, bool | int | float | str):
            return value
        return str(value)
