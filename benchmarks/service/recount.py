"""Checks budgets: counts the returned texts again with tiktoken itself, and relies on no stored figure."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from contextopt.engine.text.encodings import CL100K, load_encoding

KEPT_EXAMPLES = 5


@cache
def _encoder() -> Callable[[str], list[int]]:
    return load_encoding(CL100K).encode_ordinary


def count_tokens(text: str) -> int:
    return len(_encoder()(text))


@dataclass(slots=True)
class Recount:
    """The number of recounted texts, and those that broke their budget or certificate."""

    checked: int = 0
    violations: int = 0
    examples: list[str] = field(default_factory=list)

    def check(self, text: str, *, budget: int, certificate: Mapping[str, Any]) -> None:
        """Count a violation if the text exceeds the budget or does not match its certificate."""
        self.checked += 1
        tokens = count_tokens(text)
        faults = []
        if tokens > budget:
            faults.append(f"{tokens} tokens in a budget of {budget}")
        if tokens != certificate["tokens"]:
            faults.append(f"{tokens} tokens certified as {certificate['tokens']}")
        if hashlib.sha256(text.encode()).hexdigest() != certificate["sha256"]:
            faults.append("the hash is that of another text")
        if faults:
            self.add(0, 1, ["; ".join(faults)])

    def add(self, checked: int, violations: int, examples: list[str]) -> None:
        self.checked += checked
        self.violations += violations
        self.examples = (self.examples + examples)[:KEPT_EXAMPLES]
