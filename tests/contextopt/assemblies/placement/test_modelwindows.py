"""Contexts that take at most a share of their model's window."""

from decimal import Decimal

import pytest

from contextopt.assemblies.models import AssemblyPayload
from contextopt.assemblies.placement.modelcatalog import model_window
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.validation import InvalidValue
from contextopt.spaces.models import Space
from tests.factories import make_assembly, make_record


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("gpt-4", 8_192),
        ("GPT-4", 8_192),
        ("gpt-4o-2024-08-06", 128_000),
        ("claude-sonnet-4-5-20250929", 200_000),
        ("openai/gpt-5", 400_000),
        # Google's own entry has no window, the router's has.
        ("gemini-2.5-pro", 1_048_576),
    ],
)
def test_windows_of_models(model: str, tokens: int) -> None:
    assert model_window(model) == tokens


@pytest.mark.parametrize("model", ["nobody-9", "mistral-large-latest", "a" * 120, "/", "æ\n"])
def test_a_model_of_unknown_window_is_named(model: str) -> None:
    with pytest.raises(InvalidValue, match="is not known") as error:
        model_window(model)
    assert error.value.field == "model"


def test_the_window_limits_the_context_and_never_raises_it(space: Space) -> None:
    for number in range(20):
        make_record(space, title=f"Printer {number}", notes="The printer broke again. " * 8)
    usual = make_assembly(space, query="printer")
    narrow = make_assembly(space, query="printer", model="gpt-4", window_share=Decimal("0.05"))
    wide = make_assembly(space, query="printer", model="gpt-4", window_share=Decimal(1))
    assert narrow.allocation.context == 8_192 * 5 // 100
    assert narrow.certificate.tokens <= narrow.allocation.context < usual.certificate.tokens
    assert wide.text == usual.text
    assert wide.allocation == usual.allocation
    assert narrow.asked.overrides == {"context_tokens": 409, "window_share": "0.05"}
    assert verify_assembly(AssemblyPayload.objects.get(pk=narrow.id)) == []


def test_stage_3_has_its_own_share(space: Space) -> None:
    make_record(space, title="Printer")
    made = make_assembly(space, stage=3, model="gpt-4", window_share=Decimal("0.1"))
    assert made.allocation.context == 819


def test_a_share_needs_a_model(space: Space) -> None:
    with pytest.raises(InvalidValue, match="is needed with window_share") as error:
        make_assembly(space, window_share=Decimal("0.1"))
    assert error.value.field == "model"
