"""The findings of a task's phases: read strictly from JSON, rendered in full."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from contextopt.engine.text.cleaning import flatten
from contextopt.engine.validation import InvalidValue, check_bool, check_choice, check_text

type Decision = Literal["open", "resolved"]

DECISIONS = ("open", "resolved")
CRITICAL_TAG = "critical"
NAME_CHARS = 64
MAX_FINDINGS = 1_000
MAX_TAGS = 50
MAX_NESTING = 20
MAX_CONTENT_CHARS = 100_000
"""Maximum JSON characters of one finding's content. A whole phase hands on some 30,000."""
DEFAULT_CONFIDENCE = 0.5


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a phase. `confidence` is from 0 to 1. `decision` is None if no decision is needed.

    `answer` is that of a resolved decision, and empty if the content has it.
    """

    id: str
    phase: str
    category: str
    content: Mapping[str, Any] = field(hash=False)
    tags: tuple[str, ...] = ()
    confidence: float = DEFAULT_CONFIDENCE
    depends_on: tuple[str, ...] = ()
    implementation_ready: bool = False
    decision: Decision | None = None
    answer: str = ""

    def __post_init__(self) -> None:
        for name in ("id", "phase", "category"):
            _check_name(name, getattr(self, name))
        _check_content(self.content)
        _check_names("tags", self.tags, MAX_TAGS)
        if isinstance(self.confidence, bool) or not isinstance(self.confidence, int | float):
            raise InvalidValue("confidence", "must be a number from 0 to 1")
        # Every comparison with NaN is false.
        if not 0 <= self.confidence <= 1:
            raise InvalidValue("confidence", f"must be from 0 to 1, not {self.confidence!r:.80}")
        _check_names("depends_on", self.depends_on, MAX_FINDINGS)
        if self.id in self.depends_on:
            raise InvalidValue("depends_on", f"{self.id} depends on itself")
        check_bool("implementation_ready", self.implementation_ready)
        if self.decision is not None:
            check_choice("decision", self.decision, DECISIONS)
        check_text("answer", self.answer)
        if self.answer and self.decision != "resolved":
            raise InvalidValue("answer", "needs a resolved decision")

    def content_json(self) -> str:
        return json.dumps(self.content, ensure_ascii=False)

    def to_json(self) -> dict[str, Any]:
        """Return a plain JSON object that `parse_findings` reads."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {"tags": list(self.tags), "depends_on": list(self.depends_on)}


def render_finding(finding: Finding) -> str:
    """Return the finding in full: a line about it, and its content as JSON, unchanged, with the answer."""
    parts = [f"confidence {finding.confidence:g}"]
    if finding.tags:
        parts.append(f"tags {', '.join(finding.tags)}")
    if finding.depends_on:
        parts.append(f"depends on {', '.join(finding.depends_on)}")
    if finding.implementation_ready:
        parts.append("implementation ready")
    if finding.decision:
        parts.append(f"decision {finding.decision}")
    answer = f"answer: {json.dumps(finding.answer, ensure_ascii=False)}\n" if finding.answer else ""
    return f"{finding.id} [{finding.category}] {'; '.join(parts)}\n{finding.content_json()}\n{answer}"


def parse_findings(values: object, *, phase: str) -> tuple[Finding, ...]:
    """Read the findings of one phase. A missing id is set from the position: `F-001` is the first.

    Text content becomes the description.

    Raises:
        InvalidValue: names the place, for example `findings[3].depends_on`.
    """
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise InvalidValue("findings", "must be a list")
    if len(values) > MAX_FINDINGS:
        raise InvalidValue("findings", f"must have at most {MAX_FINDINGS:,} items, not {len(values):,}")
    findings = tuple(_parse(place, value, phase) for place, value in enumerate(values))
    _check_references(findings)
    return findings


def _parse(place: int, value: object, phase: str) -> Finding:
    where = f"findings[{place}]"
    if not isinstance(value, Mapping):
        raise InvalidValue(where, "must be an object")
    names = {each.name for each in fields(Finding)}
    for name in value:
        if name not in names:
            raise InvalidValue(f"{where}.{flatten(str(name))[:80]}", "is not a field of a finding")
    for name in ("category", "content"):
        if name not in value:
            raise InvalidValue(f"{where}.{name}", "is missing")
    if value.get("phase", phase) != phase:
        raise InvalidValue(f"{where}.phase", f"must be {phase}")
    given: dict[str, Any] = {"id": f"F-{place + 1:03}"} | dict(value) | {"phase": phase}
    if isinstance(given["content"], str):
        given["content"] = {"description": given["content"]}
    try:
        for name in ("tags", "depends_on"):
            given[name] = _as_tuple(name, given.get(name, ()))
        return Finding(**given)
    except InvalidValue as error:
        raise InvalidValue(f"{where}.{error.field}", error.message) from None


def _check_references(findings: Sequence[Finding]) -> None:
    """Refuse an ID that occurs twice, and a dependency on an unknown finding."""
    places: dict[str, int] = {}
    for place, finding in enumerate(findings):
        if finding.id in places:
            message = f"{finding.id} is already the ID of findings[{places[finding.id]}]"
            raise InvalidValue(f"findings[{place}].id", message)
        places[finding.id] = place
    for place, finding in enumerate(findings):
        for other in finding.depends_on:
            if other not in places:
                raise InvalidValue(f"findings[{place}].depends_on", f"there is no finding {other}")


def _as_tuple(name: str, value: object) -> tuple[Any, ...]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence):
        raise InvalidValue(name, "must be a list")
    return tuple(value)


def _check_name(name: str, value: object) -> None:
    check_text(name, value)
    if not isinstance(value, str) or flatten(value) != value or not 1 <= len(value) <= NAME_CHARS:
        raise InvalidValue(name, f"must be one line of 1 to {NAME_CHARS} characters")


def _check_names(name: str, values: tuple[object, ...], most: int) -> None:
    if len(values) > most:
        raise InvalidValue(name, f"must have at most {most:,} items, not {len(values):,}")
    for place, value in enumerate(values):
        _check_name(f"{name}[{place}]", value)


def _check_content(content: object) -> None:
    if not isinstance(content, Mapping):
        raise InvalidValue("content", "must be an object or text")
    if not content:
        raise InvalidValue("content", "must not be empty")
    chars = _check_json("content", content, MAX_NESTING)
    if chars > MAX_CONTENT_CHARS:
        raise InvalidValue("content", f"must have at most {MAX_CONTENT_CHARS:,} characters, not {chars:,}")


def _check_json(name: str, value: object, depth: int) -> int:
    """Return the approximate number of characters of the value. Reject non-JSON values and deep nesting."""
    if depth < 0:
        raise InvalidValue(name, f"must not be nested deeper than {MAX_NESTING}")
    match value:
        case str():
            check_text(name, value)
            if "\0" in value:
                raise InvalidValue(name, "must not contain NUL characters")
            return len(value)
        case Mapping():
            return sum(_check_member(name, key, item, depth) for key, item in value.items())
        case list() | tuple():
            return sum(_check_json(name, item, depth - 1) for item in value)
    return _check_scalar(name, value)


def _check_scalar(name: str, value: object) -> int:
    match value:
        case None | bool():
            return 4
        case int() if not -(2**63) <= value < 2**63:
            raise InvalidValue(name, "must not contain a number beyond 64 bits")
        case float() if not math.isfinite(value):
            raise InvalidValue(name, "must not contain NaN or infinity")
        case int() | float():
            return len(str(value))
    raise InvalidValue(name, "must be JSON")


def _check_member(name: str, key: object, item: object, depth: int) -> int:
    key_chars = _check_json(name, key, depth)
    place = f"{name}.{flatten(str(key))[:80]}" if depth == MAX_NESTING else name
    return key_chars + _check_json(place, item, depth - 1)
