"""Budgets in the tokens of a request's model, as callers see them."""

import pytest

from contextopt.assemblies.tokenfactors import TokenFactor
from contextopt.engine.text.encodings import load_encoding
from contextopt.spaces.models import Space
from tests import factories
from tests.contextopt.api.conftest import fields_of

O200K = load_encoding("o200k_base")
CLAUDE = "claude-opus-4-7"
CONTEXT = {"task": "Fix the rounding.", "files": [{"path": "shop/cart.py", "content": "total = 1\n" * 80}]}


@pytest.fixture
def full(space: Space) -> Space:
    for number in range(12):
        factories.make_record(space, title=f"Incident {number}", notes="お誕生日おめでとう " * 8)
    return space


def test_the_certificate_of_an_own_tokenizer(api, full):
    answer = api.post("/assemblies", {"space": "support", "model": "gpt-5", "window_days": "all"}).json()
    proof = answer["certificate"]
    tokens = len(O200K.encode_ordinary(answer["text"]))
    assert (proof["tokens"], proof["tokens_at_most"], proof["total_tokens"]) == (tokens, tokens, tokens)
    assert (proof["model"], proof["encoding"]) == ("gpt-5", "o200k_base")
    assert (
        proof["factor"] is proof["factor_mean"] is proof["factor_source"] is proof["factor_prompts"] is None
    )
    row = api.get(f"/assemblies/{answer['id']}").json()
    assert (row["encoding"], row["factor"], row["factor_source"]) == ("o200k_base", None, "")
    assert api.get(f"/assemblies/{answer['id']}/verification").json()["ok"]


def test_the_certificate_of_a_factor(api, full):
    body = {"space": "support", "model": CLAUDE, "context_tokens": 400, "window_days": "all"}
    TokenFactor.objects.create(
        team=full.team, model=CLAUDE, kind="cjk", prompts=2_140, mean=12_000, limit=13_100
    )
    answer = api.post("/assemblies", body).json()
    proof = answer["certificate"]
    assert proof["tokens"] < proof["tokens_at_most"] == answer["stats"]["tokens_used"] <= 400
    assert (proof["factor_source"], proof["factor_prompts"]) == ("learned", 2_140)
    row = api.get(f"/assemblies/{answer['id']}").json()
    assert (row["counted_tokens"], row["tokens_at_most"]) == (proof["tokens"], proof["tokens_at_most"])
    assert {row[name] == proof[name] for name in ("factor", "factor_mean", "factor_source")} == {True}
    assert api.post(f"/assemblies/{answer['id']}/replay").json()["same"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/assemblies", {"space": "support"}),
        ("/assemblies/preview", {"space": "support"}),
        ("/phases/building/filter", {"context": CONTEXT}),
        ("/retry-delta", {"task": "x", "before": {}, "after": {}, "diagnosis": {"root_cause": "bad_plan"}}),
        ("/agent-context", {"task": "Fix the rounding."}),
    ],
)
def test_model_and_encoding_together_are_refused(api, space, path, body):
    response = api.post(path, {**body, "model": "gpt-5", "encoding": "o200k_base"})
    assert (response.status_code, fields_of(response)) == (422, {"model", "encoding"})


def test_an_unknown_model_is_a_warning(api, full):
    for path, body in (
        ("/assemblies", {"space": "support"}),
        ("/phases/building/filter", {"context": CONTEXT}),
        ("/agent-context", {"task": "Fix the rounding."}),
    ):
        codes = [
            warning["code"] for warning in api.post(path, {**body, "model": "our-own"}).json()["warnings"]
        ]
        assert "unknown_model" in codes, path


def test_budgets_of_agents_are_in_the_models_tokens(api, team):
    api.post("/phases/building/profiles", {"budget_tokens": 120})
    own = api.post("/phases/building/filter", {"context": CONTEXT, "model": "gpt-5"}).json()
    assert len(O200K.encode_ordinary(own["text"])) == own["filtered_tokens"] <= 120
    scaled = api.post("/phases/building/filter", {"context": CONTEXT, "model": CLAUDE}).json()
    proof = scaled["certificate"]
    assert proof["tokens"] < proof["tokens_at_most"] == scaled["filtered_tokens"] <= 120
    for answer in (own, scaled):
        assert api.get(f"/assemblies/{answer['id']}/verification").json()["ok"]


def test_a_change_of_the_encoding_is_counted_anew_with_progress(api, full):
    assert api.get("/spaces/support").json()["recount"] is None
    api.post("/spaces/support/configs", {"encoding": "o200k_base"})
    assert api.get("/spaces/support").json()["recount"] == {"done": 0, "total": 12}
