import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from contextopt.engine.settings import ContextConfig
from contextopt.engine.validation import InvalidValue
from tests.contextopt.engine.strategies import staged_configs


def test_defaults() -> None:
    config = ContextConfig()
    assert (config.stage, config.window_days, config.max_records) == (4, 14, 20)
    assert (config.recency_weight, config.frequency_weight) == (Decimal("0.7"), Decimal("0.3"))
    assert config.total_for(4) == 800 + 1000 + 1000 + 2000 == 4800
    assert config.total_for(3) == 6800


def test_raising_one_part_raises_the_total() -> None:
    assert ContextConfig(response_tokens=1500).total_for(4) == 5300
    assert ContextConfig(response_tokens=1500, total_tokens=4800).total_for(4) == 4800


def test_a_question_has_a_window_and_a_limit_of_its_own() -> None:
    config = ContextConfig(window_days=7, max_records=5, question_window_days=90)
    assert (config.effective_window_days, config.record_limit) == (7, 5)
    asked = config.replace(stage=5)
    assert (asked.effective_window_days, asked.record_limit) == (90, None)
    assert ContextConfig(window_days=None).effective_window_days is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stage", 1),
        ("stage", 6),
        ("stage", True),
        ("window_days", 0),
        ("window_days", 3651),
        ("window_days", "14"),
        ("max_records", 0),
        ("max_records", 1001),
        ("recency_weight", Decimal("10.001")),
        ("recency_weight", Decimal("-0.1")),
        ("recency_weight", Decimal("0.0001")),
        ("recency_weight", Decimal("1e-999999")),
        ("recency_weight", Decimal("NaN")),
        ("recency_weight", Decimal("Infinity")),
        ("frequency_weight", 0.3),
        ("system_tokens", -1),
        ("history_tokens", 200_001),
        ("context_tokens", 1.5),
        ("stage3_context_tokens", None),
        ("response_tokens", 999),
        ("total_tokens", -1),
        ("total_tokens", 999),
        ("encoding", ""),
        ("encoding", "x" * 65),
        ("encoding", None),
        ("record_order", "random"),
    ],
)
def test_limits_name_the_field(field: str, value: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        ContextConfig().replace(**{field: value})
    assert caught.value.field == field
    assert "must" in caught.value.message


def test_a_weight_may_have_trailing_zeros() -> None:
    assert ContextConfig(recency_weight=Decimal("0.70000")) == ContextConfig()


@given(staged_configs)
def test_json_round_trip(config: ContextConfig) -> None:
    assert ContextConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_json_keeps_weights_exact() -> None:
    assert ContextConfig().to_json()["recency_weight"] == "0.7"
    assert ContextConfig.from_json({"recency_weight": 0.7}) == ContextConfig()
    assert ContextConfig.from_json({}) == ContextConfig()


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"window": 14}, "window"),
        ({"recency_weight": "much"}, "recency_weight"),
        ({"recency_weight": None}, "recency_weight"),
        ({"frequency_weight": [1]}, "frequency_weight"),
        ({"stage": "4"}, "stage"),
    ],
)
def test_invalid_json_is_refused(values: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        ContextConfig.from_json(values)
    assert caught.value.field == field


def test_replace_refuses_an_unknown_name() -> None:
    with pytest.raises(InvalidValue, match="windows: is not a setting"):
        ContextConfig().replace(windows=3)
