"""The findings that briefs are measured on, and the definitions of a name and a statement."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.retrieval.dialogues import load_dialogues
from contextopt.engine.briefs.compressor import Compression, compress
from contextopt.engine.briefs.findings import MAX_CONTENT_CHARS, Finding, parse_findings
from contextopt.engine.briefs.settings import BriefSettings
from contextopt.engine.text.tokens import get_tokenizer

BUDGET_TOKENS = 450
WINDOW = 60
TALK_TOKENS = 2_700
"""Minimum tokens of a window of turns, about as many as in a window of commits."""
HEADING = "changes"
LISTED = "also: "
NAMES_PER_WORD = 3

_STRICT = (
    r"(?:[\w.@~+-]*/)+[\w.@+-]*\w|\b\w+(?:\.\w+)+\b|\b\w*_\w+\b|\b[a-z]+[A-Z]\w*\b|\b[A-Z][a-z0-9]+[A-Z]\w*\b"
    r"|#\d+|\b[vV]?\d+(?:\.\d+)*\b"
)
EXTRACTORS = {
    "strict": re.compile(_STRICT),
    "lenient": re.compile(_STRICT + r"|\b[A-Z][\w'-]+\b"),
    "proper": re.compile(_STRICT + r"|(?<=[a-z,;0-9)] )(?!I\b|I'|OK\b|Okay\b|Yeah\b)[A-Z][\w'-]+"),
}
"""Strict: paths, dotted and other identifiers, references, versions, numbers. Lenient: also capitalised
words. Proper: also capitalised words within a sentence, since these name people and things in speech.
"""
_VERB = re.compile(
    r"\b(?:am|is|are|was|were|be|been|has|have|had|do|does|did|can|could|will|would|shall|should|may|might|must|let"
    r"|cannot|\w+n't|'s|'re|'ve|'ll|'m|made|ran|took|gave|came|went|got|kept|left|lost|wrote|built|found|said|told"
    r"|(?:add|allow|appl|avoid|bring|build|bump|call|catch|chang|check|cherry-pick|clarif|clean|clos|configur|confirm"
    r"|convert|correct|creat|delet|deploy|deprecat|disabl|document|drop|enabl|ensur|expand|expos|extend|fail|find|fix"
    r"|forc|get|giv|handl|hav|help|hid|ignor|implement|improv|includ|increas|insert|install|keep|know|like|link|list"
    r"|load|look|make|mak|mark|merg|mov|need|open|pass|pin|prefer|prevent|provid|rais|read|recommend|refactor|refin"
    r"|releas|remov|renam|replac|requir|resolv|respect|restor|return|revert|run|send|set|show|simplif|skip|sort|split"
    r"|stop|support|switch|take|talk|tell|test|think|try|turn|untag|updat|upgrad|us|want|warn|work|writ)"
    r"(?:e|s|es|ed|d|ied|y|ies|ing|ting|ning|ping)?)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-zÆØÅæøå']{2,}")
PATH_LIST = re.compile(r"\n*^Files: .*", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive commits or turns: their texts, and the same as findings."""

    texts: tuple[str, ...]
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Window":
        values = [{"category": HEADING, "content": {"description": text}} for text in texts]
        return cls(tuple(texts), parse_findings(values, phase="analysis"))

    @property
    def text(self) -> str:
        return "\n\n".join(self.texts)


def read_windows(path: Path, *, with_paths: bool = True) -> Iterator[Window]:
    lines = path.read_text().splitlines()
    records = [json.loads(line) for line in lines]
    for start in range(0, len(records) - WINDOW + 1, WINDOW):
        texts = [f"{each['title']}\n\n{each['notes']}".strip() for each in records[start : start + WINDOW]]
        yield Window.of(texts if with_paths else [PATH_LIST.sub("", text) for text in texts])


def talk_windows(path: Path) -> Iterator[Window]:
    """Yield the turns of conversations, each as a finding, in windows of consecutive turns."""
    count = get_tokenizer("cl100k_base").count
    for dialogue in load_dialogues(path):
        texts: list[str] = []
        tokens = 0
        for turn in dialogue.turns:
            if len(turn.text) > MAX_CONTENT_CHARS // 2 or not turn.text.strip():
                continue
            texts.append(turn.text)
            tokens += count(turn.text)
            if tokens >= TALK_TOKENS:
                yield Window.of(texts)
                texts, tokens = [], 0


def compress_window(window: Window) -> Compression:
    return compress(
        window.findings,
        phase="analysis",
        settings=BriefSettings().with_budget("analysis", BUDGET_TOKENS),
        tokenizer=get_tokenizer("cl100k_base"),
    )


def statements_in(brief: str) -> str:
    """Return the lines of a brief that say something about the names in them.

    Such a line has a verb, at least one more word or name, and at most three times as many names as other
    words. Headings and the closing list of names do not count.
    """
    return "\n".join(line for line in brief.split("\n") if _is_statement(line))


def _is_statement(line: str) -> bool:
    if line == f"{HEADING}:" or line.startswith(LISTED):
        return False
    names = set(EXTRACTORS["strict"].findall(line))
    words = _WORD.findall(EXTRACTORS["strict"].sub(" ", line))
    has_verb = bool(_VERB.search(EXTRACTORS["strict"].sub(" ", line)))
    return has_verb and len(words) + len(names) > 1 and len(names) <= NAMES_PER_WORD * len(words)
