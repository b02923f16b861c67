"""Reported tokens teach a team's factors: those of prompts that hold text alone, and no others."""

import json
from datetime import timedelta
from typing import Any

import pytest

from contextopt.assemblies.tokenfactors import LEAST_PROMPTS, TokenFactor, choose_tokenizer
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.gateway.modelanswers import Usage
from contextopt.gateway.protocols import read_prompt
from contextopt.gateway.tokenratios import LATEST, MARGIN, is_teaching, learn_ratio
from contextopt.people.models import Team
from tests.concurrency import wait_until
from tests.contextopt.gateway.conftest import Caller
from tests.factories import NOW

CLAUDE = "claude-opus-4-7"
PROSE = "The cluster was moved on Friday, and nobody noticed it until Monday morning. "
USAGE = Usage(input=47, cached=30, cache_write=5, output=7)


def teach(team: Team, prompts: int, ratio: float, counted: int = 1_000, **given: Any) -> None:
    values = {"model": CLAUDE, "texts": [PROSE * 4], "moment": NOW, **given}
    for number in range(prompts):
        # One prompt in twenty has a tenth more.
        reported = round(counted * ratio * (1.1 if number % 20 == 0 else 1))
        learn_ratio(team_id=team.pk, counted=counted, reported=reported, **values)


def is_text(protocol: str, **request: Any) -> bool:
    return read_prompt(protocol, json.dumps({"model": CLAUDE, **request}).encode()).is_text_alone


def test_a_factor_is_learned_from_200_prompts(team: Team) -> None:
    teach(team, LEAST_PROMPTS - LATEST, 1.31)
    factor = TokenFactor.objects.get(team=team)
    assert (factor.model, factor.kind, factor.seen, factor.is_used) == (CLAUDE, "prose", 150, False)
    teach(team, LATEST, 1.31)
    factor.refresh_from_db()
    assert (factor.prompts, factor.is_used) == (LEAST_PROMPTS, True)
    assert factor.mean == round(10_000 * factor.reported_tokens / factor.counted_tokens)
    assert factor.mean == pytest.approx(13_100 * 1.005, abs=20)
    # The largest ratio that was seen, to one per cent, and the margin for lines of records.
    assert 13_100 * 1.1 * MARGIN <= factor.limit <= 13_100 * 1.1 * MARGIN * 1.011
    tokenizer = choose_tokenizer(team.pk, model=CLAUDE, encoding=None)
    measured = tokenizer.measure(PROSE, 0)
    assert (measured.source, measured.prompts, measured.factor) == ("learned", LEAST_PROMPTS, factor.limit)


def test_long_prompts_weigh_more(team: Team) -> None:
    """The frame around a message makes the ratio of short prompts large."""
    teach(team, 300, 1.3, counted=5_000)
    teach(team, 50, 2.0, counted=20)
    factor = TokenFactor.objects.get(team=team)
    assert factor.mean == pytest.approx(13_100, abs=100)
    assert factor.limit < 15_000 * MARGIN


def test_kinds_of_text_are_apart(team: Team) -> None:
    teach(team, LATEST, 1.5)
    teach(team, LATEST, 1.0, texts=["昨日の会議の結果を共有します。"])
    assert dict(TokenFactor.objects.values_list("kind", "mean")) == {"prose": 15_090, "cjk": 10_060}


def test_teams_are_apart(team: Team, other_team: Team) -> None:
    teach(team, LEAST_PROMPTS, 1.3)
    assert not TokenFactor.objects.filter(team=other_team).exists()
    assert choose_tokenizer(other_team.pk, model=CLAUDE, encoding=None).measure(PROSE, 0).source == "shipped"


def test_a_jump_starts_anew_and_is_kept_in_mind(team: Team) -> None:
    teach(team, LEAST_PROMPTS, 1.3)
    before = TokenFactor.objects.get(team=team)
    later = NOW + timedelta(days=3)
    teach(team, LATEST, 1.6, moment=later)
    factor = TokenFactor.objects.get(team=team)
    assert (factor.prompts, factor.since, factor.mean_before) == (LATEST, later, before.mean)
    assert factor.mean == pytest.approx(16_000, rel=0.01)
    assert not factor.is_used
    # Nothing older is left in it.
    assert sum(factor.histogram) == factor.counted_tokens == LATEST * 1_000


def test_a_smaller_change_goes_into_the_mean(team: Team) -> None:
    teach(team, LEAST_PROMPTS, 1.3)
    teach(team, LATEST, 1.5)
    factor = TokenFactor.objects.get(team=team)
    assert (factor.prompts, factor.mean_before) == (LEAST_PROMPTS + LATEST, None)


@pytest.mark.parametrize(
    ("counted", "reported"), [(4, 6), (1_000, 100), (1_000, 9_000), (2_000_000, 2_600_000)]
)
def test_impossible_ratios_teach_nothing(team: Team, counted: int, reported: int) -> None:
    learn_ratio(team_id=team.pk, model=CLAUDE, texts=[PROSE], counted=counted, reported=reported, moment=NOW)
    assert not TokenFactor.objects.exists()


@pytest.mark.parametrize("protocol", ["chat", "messages"])
@pytest.mark.parametrize(
    ("more", "content", "is_alone"),
    [
        ({}, "hello", True),
        ({}, [{"type": "text", "text": "hello"}], True),
        ({"temperature": 0.2, "max_tokens": 5, "stream": True}, "hello", True),
        ({"tools": [{"name": "search"}]}, "hello", False),
        ({"response_format": {"type": "json_object"}}, "hello", False),
        ({"thinking": {"type": "enabled"}}, "hello", False),
        ({}, [{"type": "text", "text": "hello"}, {"type": "image_url", "image_url": {"url": "x"}}], False),
        ({}, [{"type": "tool_result", "tool_use_id": "1", "content": "x"}], False),
        ({}, [{"type": "document", "source": {}}], False),
    ],
)
def test_prompts_that_hold_text_alone(protocol: str, more: Any, content: Any, is_alone: bool) -> None:
    assert is_text(protocol, messages=[{"role": "user", "content": content}], **more) is is_alone


def test_calls_of_tools_and_stored_answers_are_no_text() -> None:
    said = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}
    assert not is_text("chat", messages=[{"role": "user", "content": "x"}, said])
    assert is_text("responses", input="hello")
    assert is_text("responses", input=[{"role": "user", "content": [{"type": "input_text", "text": "x"}]}])
    assert not is_text("responses", input=[{"type": "function_call_output", "call_id": "1", "output": "x"}])
    assert not is_text("responses", input="hello", previous_response_id="resp_1")


@pytest.mark.parametrize(
    ("model", "protocol", "usage", "teaches"),
    [
        (CLAUDE, "messages", USAGE, True),
        (CLAUDE, "messages", Usage(47, None, 5, 7), False),
        (CLAUDE, "messages", Usage(47, 30, None, 7), False),
        (CLAUDE, "messages", Usage(None, 30, 5, 7), False),
        ("gemini-3-pro", "chat", Usage(47, None, None, 7), True),
        ("our-own", "chat", Usage(47, 0, None, 7), True),
        ("gpt-5", "chat", USAGE, False),
        ("", "chat", USAGE, False),
    ],
)
def test_models_and_usage_that_teach(model: str, protocol: str, usage: Usage, teaches: bool) -> None:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hello"}]}).encode()
    assert is_teaching(read_prompt(protocol, body), protocol, usage) is teaches


def test_a_prompt_that_passes_teaches_its_team(caller: Caller) -> None:
    body = {"model": CLAUDE, "max_tokens": 5, "messages": [{"role": "user", "content": PROSE}]}
    caller.post("/v1/messages", body)
    [row] = caller.logged()
    wait_until(TokenFactor.objects.exists)
    factor = TokenFactor.objects.get()
    assert (factor.team_id, factor.model) == (caller.space.team_id, CLAUDE)
    assert factor.latest_counted == [get_tokenizer("cl100k_base").count(PROSE)]
    assert factor.latest_reported == [row.input_tokens] == [47]
    # The log counts in the model's tokens, at most.
    assert row.prompt_tokens > factor.latest_counted[0]
