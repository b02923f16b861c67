"""In which tokens a model is billed, and what a text takes of them at most."""

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.text.modeltokens import (
    MODELS,
    SHIPPED_FACTORS,
    Factor,
    ModelTokenizer,
    find_rule,
    find_shipped,
    tokenizer_of_log,
)
from contextopt.engine.text.textkinds import TextKind
from contextopt.engine.text.tokens import RememberingTokenizer, get_tokenizer
from contextopt.engine.values import Certificate
from tests.contextopt.engine.factories import TOKENIZER
from tests.contextopt.engine.strategies import texts
from tests.contextopt.engine.text.test_textkinds import CJK, CODE, DATA, PROSE

FACTORS = {
    kind: Factor(12_000 + 1_000 * place, 13_100 + 1_000 * place, 2_140) for place, kind in enumerate(TextKind)
}
CLAUDE = ModelTokenizer(TOKENIZER, "claude-opus-4-7", FACTORS)
O200K = get_tokenizer("o200k_base")


@pytest.mark.parametrize(
    ("model", "encoding", "family"),
    [
        ("gpt-5", "o200k_base", ""),
        ("gpt-5.2-codex", "o200k_base", ""),
        ("GPT-4o-mini-2024-07-18", "o200k_base", ""),
        ("openai/gpt-4.1", "o200k_base", ""),
        ("ft:gpt-4o-mini-2024-07-18:acme::8abc", "o200k_base", ""),
        ("o3-mini", "o200k_base", ""),
        ("gpt-oss-120b", "o200k_base", ""),
        ("gpt-4", "cl100k_base", ""),
        ("gpt-4-turbo", "cl100k_base", ""),
        ("gpt-35-turbo-16k", "cl100k_base", ""),
        ("claude-3-5-haiku-latest", None, "claude-3"),
        ("claude-sonnet-4-5-20250929", None, "claude-3"),
        ("claude-opus-4-7", None, "claude-4.7"),
        ("claude-opus-4.8", None, "claude-4.7"),
        ("claude-sonnet-5", None, "claude-4.7"),
        ("anthropic/claude-3.7-sonnet", None, "claude-3"),
        ("us.anthropic.claude-opus-4-7-v1:0", None, "claude-4.7"),
        ("models/gemini-3-pro", None, "gemma-3"),
        ("mistral-large-latest", "mistral_tekken", "tekken"),
        ("Qwen/Qwen3-32B", None, "qwen"),
        ("deepseek-chat", None, "deepseek"),
        ("meta-llama/Llama-3.3-70B-Instruct", None, "llama-3"),
    ],
)
def test_the_longest_prefix_decides(model: str, encoding: str | None, family: str) -> None:
    rule = find_rule(model)
    assert rule is not None
    assert (rule.encoding, rule.family) == (encoding, family)


@pytest.mark.parametrize("model", ["", "m", "own", "nobody-knows-it", "chatgpt", "my-gpt-5"])
def test_other_names_are_unknown(model: str) -> None:
    assert find_rule(model) is None
    assert find_shipped(model) is None


def test_each_rule_can_count() -> None:
    """A prefix occurs once, and a model without an installed tokenizer has shipped factors of every kind."""
    prefixes = [rule.prefix for rule in MODELS]
    assert len(prefixes) == len(set(prefixes))
    for rule in MODELS:
        assert rule.is_installed or set(SHIPPED_FACTORS[rule.family].factors) == set(TextKind)
    for shipped in SHIPPED_FACTORS.values():
        assert shipped.source
        assert all(factor.mean <= factor.limit for factor in shipped.factors.values())


@pytest.mark.parametrize(("text", "factor"), [(PROSE, 13_100), (CODE, 14_100), (DATA, 15_100), (CJK, 16_100)])
def test_a_text_takes_the_factor_of_its_kind(text: str, factor: int) -> None:
    tokens = TOKENIZER.count(text)
    measured = CLAUDE.measure(text, CLAUDE.count(text))
    assert (measured.tokens, measured.factor, measured.prompts) == (tokens, factor, 2_140)
    assert measured.at_most == CLAUDE.count(text) == ceil(Fraction(tokens * factor, 10_000))


def test_several_kinds_take_their_factors_by_share() -> None:
    measured = CLAUDE.measure(PROSE * 40 + CJK * 40, 0)
    assert measured.factor is not None
    assert 13_100 < measured.factor < 16_100
    assert measured.at_most == -(-measured.tokens * measured.factor // 10_000)


@given(texts)
def test_at_most_is_the_factor_rounded_up(text: str) -> None:
    tokens, at_most, _, factor, mean, *_ = CLAUDE.measure(text, CLAUDE.count(text))
    assert factor is not None
    assert mean is not None
    assert mean <= factor
    assert tokens == TOKENIZER.count(text)
    assert at_most == CLAUDE.count(text) == ceil(Fraction(tokens * factor, 10_000))


def test_runs_of_a_sign_take_more() -> None:
    """cl100k has a token for 80 dashes. Claude has one for six or seven."""
    plain, lined = PROSE * 3, PROSE * 3 + "-" * 400 + "\n"
    assert CLAUDE.count(lined) - CLAUDE.count(plain) >= 400 / 7


@given(texts)
def test_with_its_own_encoding_a_model_counts_as_it(text: str) -> None:
    own = ModelTokenizer(O200K, "gpt-5")
    assert own.count(text) == O200K.count(text)
    assert own.measure(text, own.count(text)) == (O200K.count(text), O200K.count(text), "gpt-5", *[None] * 4)
    assert own.is_additive


@given(st.lists(texts, max_size=5))
def test_a_remembering_one_counts_the_same(parts: list[str]) -> None:
    remembering = CLAUDE.remembering()
    assert isinstance(remembering, ModelTokenizer)
    assert isinstance(remembering.base, RememberingTokenizer)
    for text in (*parts, "\n".join(parts)):
        assert remembering.count(text) == CLAUDE.count(text)


def test_stored_counts_of_another_encoding_are_not_used() -> None:
    line = "- お誕生日おめでとう (2026-03-02)\n"
    tokens = TOKENIZER.count(line)
    assert TOKENIZER.convert(line, tokens, "cl100k_base") == tokens
    assert O200K.convert(line, tokens, "cl100k_base") == O200K.count(line) != tokens
    assert CLAUDE.convert(line, tokens, "cl100k_base") == CLAUDE.count(line)
    assert CLAUDE.convert(line, 1, "o200k_base") == CLAUDE.count(line)


def test_the_factors_are_logged() -> None:
    again = tokenizer_of_log(TOKENIZER, "claude-opus-4-7", CLAUDE.factors_json())
    assert again == CLAUDE
    assert tokenizer_of_log(TOKENIZER, "", None) is TOKENIZER
    assert tokenizer_of_log(O200K, "gpt-5", None) == ModelTokenizer(O200K, "gpt-5")


class TestCertificate:
    def test_of_an_own_tokenizer(self) -> None:
        own = ModelTokenizer(O200K, "gpt-5")
        proof = Certificate.of(PROSE, own.count(PROSE), own)
        assert proof.statement == f"{proof.tokens} tokens, counted with o200k_base"
        assert (proof.model, proof.factor, proof.tokens_at_most) == ("gpt-5", None, proof.tokens)

    def test_of_a_learned_factor(self) -> None:
        text = PROSE * 100
        proof = Certificate.of(text, CLAUDE.count(text), CLAUDE, carried_tokens=7)
        assert (proof.factor, proof.factor_mean) == (1.31, 1.2)
        assert (proof.factor_source, proof.factor_prompts) == ("learned", 2_140)
        assert proof.total_tokens == proof.tokens_at_most + 7
        assert proof.statement == (
            f"{proof.tokens:,} counted with cl100k_base, ×1.31 for claude-opus-4-7 from 2,140 prompts: "
            f"at most {ceil(Fraction(proof.tokens * 131, 100)):,}"
        )

    def test_of_a_shipped_factor(self) -> None:
        shipped = find_shipped("claude-opus-4-7")
        assert shipped is not None
        tokenizer = ModelTokenizer(TOKENIZER, "claude-opus-4-7", shipped.factors)
        proof = Certificate.of(PROSE, tokenizer.count(PROSE), tokenizer)
        assert (proof.factor_source, proof.factor_prompts) == ("shipped", None)
        assert (
            "×1.90 for claude-opus-4-7 from shipped factors (ctok 1.3.0, a reconstruction, 28"
            in proof.statement
        )
