"""Tells in which tokens a model is billed: the encoding of each model, and factors where none is public.

A model without a public tokenizer is counted in `cl100k_base`, times a factor for the kind of the text.
Limits use the factor that 99 % of texts stay below, and money the mean.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import NamedTuple

from contextopt.engine.text.encodings import CL100K, O200K, TEKKEN, known_encodings
from contextopt.engine.text.textkinds import TextKind, chars_in_runs, kind_shares
from contextopt.engine.text.tokens import FACTOR_SCALE, FactorSource, Measure, Tokenizer

RUN_CHARS_PER_TOKEN = 6
"""cl100k has tokens for long runs of one sign. Other tokenizers need up to one for this many characters."""

LEARNED: FactorSource = "learned"
SHIPPED: FactorSource = "shipped"


class Factor(NamedTuple):
    """Tokens of a model for 10,000 that are counted: the mean, and what 99 % of texts stay below.

    `prompts` is the number of prompts that it was learned from, or 0 if it is a shipped one.
    """

    mean: int
    limit: int
    prompts: int = 0


type Factors = Mapping[TextKind, Factor]


class ModelRule(NamedTuple):
    """How the models whose names begin with `prefix` are counted, as known on the day `checked`.

    `encoding` is the model's own, or None without a public one. `family` names the shipped factors for models
    without one, and for those whose encoding is not installed.
    """

    prefix: str
    encoding: str | None
    checked: date
    family: str = ""

    @property
    def is_installed(self) -> bool:
        """Whether the models' own encoding is at hand."""
        return self.encoding in known_encodings()


_CHECKED = date(2026, 11, 28)


def _rules(encoding: str | None, prefixes: str, family: str = "") -> tuple[ModelRule, ...]:
    return tuple(ModelRule(prefix, encoding, _CHECKED, family) for prefix in prefixes.split())


# The longest prefix decides. Sources: tiktoken/model.py, and the makers' pages on models.
MODELS = (
    *_rules(O200K, "gpt-5 gpt-4.1 gpt-4.5 gpt-4o chatgpt-4o gpt-oss o1 o3 o4 codex-mini computer-use"),
    *_rules(CL100K, "gpt-4 gpt-3.5 gpt-35 text-embedding-3 text-embedding-ada-002"),
    *_rules(None, "claude-", "claude-4.7"),
    *_rules(None, "claude-instant claude-2 claude-3", "claude-3"),
    *_rules(None, "claude-opus-4 claude-sonnet-4 claude-haiku-4", "claude-3"),
    *_rules(None, "claude-opus-4-7 claude-sonnet-4-7 claude-haiku-4-7", "claude-4.7"),
    *_rules(None, "claude-opus-4-8 claude-sonnet-4-8 claude-haiku-4-8", "claude-4.7"),
    *_rules(None, "gemini- gemma-3", "gemma-3"),
    *_rules(None, "llama-3 llama3 meta-llama-3", "llama-3"),
    *_rules(TEKKEN, "mistral- ministral- pixtral- magistral- devstral- codestral-", "tekken"),
    *_rules(None, "qwen qwq", "qwen"),
    *_rules(None, "deepseek", "deepseek"),
)  # fmt: skip
# Routers and clouds put their name or the maker's before a model's: openai/gpt-5, us.anthropic.claude-….
_ROUTE = re.compile(r"(?:.*/)?(?:ft:)?(?:(?:\w{2,6}\.)?(?:anthropic|meta|mistral|deepseek|qwen)\.)?")


def find_rule(model: str) -> ModelRule | None:
    """Return how a model is counted, or None if its name is unknown."""
    name = _ROUTE.sub("", model.strip().lower(), count=1).replace(".", "-")
    fitting = (rule for rule in MODELS if name.startswith(rule.prefix.replace(".", "-")))
    return max(fitting, key=lambda rule: len(rule.prefix), default=None)


class ShippedFactors(NamedTuple):
    """Factors that come with the product, for models of whose prompts nothing was learned yet."""

    source: str
    measured: date
    factors: Factors


def _shipped(source: str, **factors: tuple[int, int]) -> ShippedFactors:
    return ShippedFactors(
        source, _CHECKED, {TextKind(kind): Factor(*factor) for kind, factor in factors.items()}
    )


# Over 1,367 texts of about 1,200 characters: dialogues, documentation, code, JSON, tables, logs, and messages
# in Chinese, Japanese and Korean. The limit is what 99 % of them stay below, rounded up.
SHIPPED_FACTORS: Mapping[str, ShippedFactors] = {
    "claude-3": _shipped(
        "ctok 1.3.0, a reconstruction", prose=(11_400, 13_500), code=(12_600, 20_000), data=(10_700, 13_000),
        cjk=(10_300, 14_000),
    ),
    "claude-4.7": _shipped(
        "ctok 1.3.0, a reconstruction", prose=(15_500, 19_000), code=(16_300, 22_500), data=(12_100, 16_000),
        cjk=(10_600, 14_500),
    ),
    "gemma-3": _shipped(
        "Gemma 3's tokenizer", prose=(10_900, 13_000), code=(12_000, 20_000), data=(14_500, 16_500),
        cjk=(8_000, 10_500),
    ),
    "llama-3": _shipped(
        "Llama 3.1's tokenizer", prose=(10_000, 10_200), code=(10_000, 10_200), data=(10_000, 10_200),
        cjk=(7_800, 10_000),
    ),
    "tekken": _shipped(
        "mistral-common 1.13.1", prose=(10_400, 12_000), code=(10_700, 13_500), data=(14_200, 16_500),
        cjk=(9_000, 11_500),
    ),
    "qwen": _shipped(
        "Qwen 3 and 3.5's tokenizers", prose=(10_700, 12_500), code=(11_300, 20_000), data=(14_200, 16_500),
        cjk=(8_200, 10_600),
    ),
    "deepseek": _shipped(
        "DeepSeek V3's tokenizer", prose=(10_200, 12_000), code=(10_500, 12_500), data=(10_200, 11_500),
        cjk=(7_600, 9_500),
    ),
}  # fmt: skip


def find_shipped(model: str) -> ShippedFactors | None:
    """Return the shipped factors of a model, or None if there are none."""
    rule = find_rule(model)
    return SHIPPED_FACTORS.get(rule.family) if rule else None


@dataclass(frozen=True, slots=True)
class ModelTokenizer:
    """Counts in the tokens that a model is billed for: those of its own encoding, or else at most so many.

    Its name and version are those of `base`. Without `factors`, it counts what `base` counts. If the model's
    name `is_unknown`, nobody knows whether that is right.
    """

    base: Tokenizer
    model: str
    factors: Factors | None = None
    is_unknown: bool = False

    @property
    def name(self) -> str:
        return self.base.name

    @property
    def version(self) -> str:
        return self.base.version

    @property
    def is_additive(self) -> bool:
        # Each count is rounded up, so parts can have more tokens than the whole.
        return self.base.is_additive and self.factors is None

    def count(self, text: str) -> int:
        tokens = self.base.count(text)
        return tokens if self.factors is None else self._scaled(text, tokens, self.factors).at_most

    def measure(self, text: str, counted: int) -> Measure:
        if self.factors is None:
            return Measure(counted, counted, self.model)
        return self._scaled(text, self.base.count(text), self.factors)

    def convert(self, line: str, tokens: int, encoding: str) -> int:
        tokens = self.base.convert(line, tokens, encoding)
        return tokens if self.factors is None else self._scaled(line, tokens, self.factors).at_most

    def remembering(self) -> Tokenizer:
        return replace(self, base=self.base.remembering())

    def factors_json(self) -> dict[str, list[int]] | None:
        return {str(kind): list(factor) for kind, factor in self.factors.items()} if self.factors else None

    def _scaled(self, text: str, tokens: int, factors: Factors) -> Measure:
        """Return what the tokens are at most. The factor is that of the text's kinds together."""
        shares = kind_shares(text)
        main = factors[next(iter(shares))]
        limit = sum(share * factors[kind].limit for kind, share in shares.items())
        mean = sum(share * factors[kind].mean for kind, share in shares.items())
        extra = chars_in_runs(text) // RUN_CHARS_PER_TOKEN * FACTOR_SCALE
        factor = -int(-(limit + (extra / tokens if tokens else 0)) // 1)
        at_most = -(-tokens * factor // FACTOR_SCALE)
        source = LEARNED if main.prompts else SHIPPED
        return Measure(tokens, at_most, self.model, factor, round(mean), source, main.prompts or None)


def tokenizer_of_log(
    tokenizer: Tokenizer, model: str, factors: Mapping[str, Sequence[int]] | None
) -> Tokenizer:
    """Return the tokenizer of a logged context, with the factors that it had then."""
    if not model:
        return tokenizer
    read = {TextKind(kind): Factor(*factor) for kind, factor in factors.items()} if factors else None
    return ModelTokenizer(tokenizer, model, read)
