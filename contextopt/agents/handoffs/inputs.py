"""Input types for findings and hand-offs."""

import json
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from contextopt.agents.handoffs import models as limits
from contextopt.agents.inputs import AgentContextIn
from contextopt.assemblies.tokenfactors import Encoding
from contextopt.engine.briefs.settings import MAX_BUDGET_TOKENS, MIN_BUDGET_TOKENS
from contextopt.engine.text.cleaning import flatten
from contextopt.inputs import INT_MAX, NUMBER, Input, Text, check_json, refuse_blank

CONTENT_DEPTH_MAX = 20
KEY = re.compile(r"[Ff]-0*([1-9][0-9]{0,9})")


def check_content(content: dict[str, Any]) -> dict[str, Any]:
    """Refuse content that cannot be stored, is empty, or is nested too deep or too large."""
    check_json(content, CONTENT_DEPTH_MAX)
    if not _says_something(content):
        raise ValueError("must be an object with at least one text, number or boolean")
    size = len(json.dumps(content, ensure_ascii=False).encode())
    if size > limits.CONTENT_MAX_BYTES:
        raise ValueError(f"must be at most {limits.CONTENT_MAX_BYTES:,} bytes of JSON, not {size:,}")
    return content


def _says_something(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_says_something, value.values()))
    if isinstance(value, list):
        return any(map(_says_something, value))
    return bool(value.strip()) if isinstance(value, str) else value is not None


def one_line(text: str) -> str:
    if flatten(text) != text:
        raise ValueError("must be one line without leading or trailing spaces")
    return text


def check_key(key: str) -> str:
    """Return an id such as F-1 or f-001 in its usual form, F-001."""
    match = KEY.fullmatch(key.strip())
    if match is None or int(match[1]) > INT_MAX:
        raise ValueError("must be a finding's ID, such as F-001")
    return limits.finding_key(int(match[1]))


Key = Annotated[Text, Field(max_length=20), AfterValidator(check_key)]
Category = Annotated[
    Text,
    Field(min_length=1, max_length=limits.CATEGORY_MAX),
    AfterValidator(refuse_blank),
    AfterValidator(one_line),
]
Tag = Annotated[Text, Field(min_length=1, max_length=limits.TAG_MAX), AfterValidator(one_line)]
Content = Annotated[dict[str, Any], AfterValidator(check_content)]
Tags = Annotated[list[Tag], Field(max_length=limits.TAGS_MAX)]
Keys = Annotated[list[Key], Field(max_length=limits.DEPENDENCIES_MAX)]
PhaseName = Literal["analysis", "design", "implementation"]


class FindingIn(Input):
    """A finding of the task's current phase, or of an earlier one named in `phase`.

    IDs are assigned in order. Send `id` to state the expected one; any other than the next is rejected.
    """

    id: Key | None = None
    phase: PhaseName | None = None
    category: Category
    content: Content
    tags: Tags = Field(default_factory=list)
    confidence: Annotated[float, Field(ge=0, le=1), NUMBER] = 0.5
    depends_on: Keys = Field(default_factory=list)
    implementation_ready: bool = False
    decision: Literal["open", "resolved"] | None = None


class FindingPatch(Input):
    """New tags and dependencies of a finding. Fields you omit stay unchanged."""

    tags: Tags = Field(default_factory=list)
    depends_on: Keys = Field(default_factory=list)


class ResolutionIn(Input):
    """The answer to a decision. A further one corrects it."""

    answer: Annotated[Text, Field(max_length=limits.RESOLUTION_MAX), AfterValidator(refuse_blank)]


class CompressIn(Input):
    """`force` compresses even if decisions are open, which is recorded. Without `phase`, the current one is
    compressed.
    """

    force: bool = False
    phase: PhaseName | None = None


class AdvanceIn(Input):
    """`to` states the phase you expect to enter."""

    force: bool = False
    to: PhaseName | None = None


class PhaseFindings(Input):
    """The findings of one phase, without a stored task. Each of them is validated."""

    phase: PhaseName
    findings: list[Any]


class CompressFindingsIn(PhaseFindings):
    findings: Annotated[list[Any], Field(max_length=limits.FINDINGS_MAX)]
    budget: Annotated[int, Field(ge=MIN_BUDGET_TOKENS, le=MAX_BUDGET_TOKENS), NUMBER] | None = None
    encoding: Encoding = "cl100k_base"


class BundleIn(Input):
    """The agent's context besides the hand-off, fitted to the phase's bundle budget."""

    context: AgentContextIn = Field(default_factory=AgentContextIn)
