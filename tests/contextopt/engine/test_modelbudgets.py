"""No budget is exceeded in the tokens of the model that is billed."""

from dataclasses import replace

import pytest
from hypothesis import given

from contextopt.engine.assembly import assemble
from contextopt.engine.settings import ContextConfig
from contextopt.engine.text.encodings import load_encoding
from contextopt.engine.text.modeltokens import ModelTokenizer, find_shipped
from contextopt.engine.text.tokens import Tokenizer, get_tokenizer
from contextopt.engine.values import SpaceContext
from tests.contextopt.engine.factories import NOW, TOKENIZER
from tests.contextopt.engine.strategies import spaces, staged_configs

O200K = load_encoding("o200k_base")


def shipped(model: str) -> ModelTokenizer:
    found = find_shipped(model)
    assert found is not None
    return ModelTokenizer(TOKENIZER, model, found.factors)


def counted_in(space: SpaceContext, tokenizer: Tokenizer) -> SpaceContext:
    """Return the space with the counts of its records in the model's tokens."""
    records = [
        replace(record, tokens=tokenizer.convert(record.line, record.tokens, TOKENIZER.name))
        for record in space.records
    ]
    return replace(space, records=tuple(records))


@given(spaces(), staged_configs)
def test_in_o200k(space: SpaceContext, config: ContextConfig) -> None:
    tokenizer = ModelTokenizer(get_tokenizer("o200k_base"), "gpt-5")
    assembled = assemble(counted_in(space, tokenizer), config, NOW, tokenizer)
    tokens = len(O200K.encode_ordinary(assembled.text))
    assert tokens == assembled.certificate.tokens == assembled.stats.tokens_used
    assert tokens <= assembled.allocation.context
    assert assembled.certificate.encoding == "o200k_base"


@pytest.mark.parametrize(
    "model", ["claude-3-5-haiku-latest", "claude-opus-4-7", "gemini-3-pro", "deepseek-chat"]
)
@given(space=spaces(), config=staged_configs)
def test_with_a_factor(model: str, space: SpaceContext, config: ContextConfig) -> None:
    tokenizer = shipped(model)
    assembled = assemble(counted_in(space, tokenizer), config, NOW, tokenizer)
    proof = assembled.certificate
    assert proof.tokens == TOKENIZER.count(assembled.text)
    assert proof.tokens_at_most == assembled.stats.tokens_used <= assembled.allocation.context
    if assembled.baseline_text is not None:
        assert assembled.stats.stage3_tokens == tokenizer.count(assembled.baseline_text)


@given(spaces(), staged_configs)
def test_stored_counts_of_another_encoding_change_nothing_but_the_last_record(
    space: SpaceContext, config: ContextConfig
) -> None:
    """The text is counted whole, so a budget holds even where the records' counts are of another encoding."""
    tokenizer = get_tokenizer("o200k_base")
    assembled = assemble(space, config, NOW, tokenizer)
    assert len(O200K.encode_ordinary(assembled.text)) <= assembled.allocation.context
