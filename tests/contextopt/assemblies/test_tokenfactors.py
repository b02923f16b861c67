"""The tokens of a request's model, from the request to the log, its verification and its replay."""

from datetime import timedelta

import pytest

from contextopt.assemblies.inputs import ReplayIn
from contextopt.assemblies.models import Assembly
from contextopt.assemblies.placement.modelcatalog import PriceBook
from contextopt.assemblies.replay.replay import cost_of, replay_assembly
from contextopt.assemblies.tokenfactors import TokenFactor, choose_tokenizer
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.placement.choice import Split
from contextopt.engine.text.encodings import load_encoding
from contextopt.engine.text.tokens import count_line
from contextopt.errors import InvalidInput
from contextopt.people.models import Team
from contextopt.spaces.inputs import RecordIn
from contextopt.spaces.models import Space
from contextopt.spaces.records import upsert_records
from tests.factories import NOW, make_assembly
from tests.queries import count_queries

O200K, CL100K = load_encoding("o200k_base"), load_encoding("cl100k_base")
CLAUDE = "claude-opus-4-7"


@pytest.fixture
def full(space: Space) -> Space:
    """A space whose records fill any budget here, in English and Japanese."""
    rows = [
        RecordIn(
            title=f"Entscheidung {n} 決定",
            date=NOW - timedelta(hours=n),
            notes="会議の結果を共有します。 " * 8,
        )
        for n in range(60)
    ]
    upsert_records(space=space, rows=rows, actor="test")
    return space


def learn(team: Team, model: str = CLAUDE, kind: str = "cjk", **values: object) -> TokenFactor:
    defaults = {"prompts": 2_140, "mean": 12_000, "limit": 13_100, "counted_tokens": 1, "reported_tokens": 1}
    return TokenFactor.objects.create(team=team, model=model, kind=kind, **{**defaults, **values})


def logged(result) -> Assembly:
    return Assembly.objects.for_replay().get(pk=result.id)


def test_without_a_model_the_space_counts(full: Space) -> None:
    proof = make_assembly(full).certificate
    assert (proof.encoding, proof.model, proof.factor) == ("cl100k_base", "", None)
    assert proof.tokens_at_most == proof.tokens == len(CL100K.encode_ordinary(make_assembly(full).text))


def test_a_model_counts_in_its_own_encoding(full: Space) -> None:
    result = make_assembly(full, model="gpt-5", context_tokens=700)
    tokens = len(O200K.encode_ordinary(result.text))
    assert 600 < tokens == result.stats.tokens_used == result.certificate.tokens_at_most <= 700
    assert result.certificate.statement == f"{tokens} tokens, counted with o200k_base"
    kept = [entry for entry in result.ledger if entry.kept]
    lines = result.record_lines
    assert [entry.tokens for entry in kept] == [len(O200K.encode_ordinary(lines[entry.id])) for entry in kept]
    row = logged(result)
    assert (row.encoding, row.model, row.factor, row.counted_tokens) == ("o200k_base", "gpt-5", None, None)
    assert verify_assembly(row.payload) == []
    assert replay_assembly(row).is_same


def test_system_and_history_are_counted_in_it_too(full: Space) -> None:
    text = "お誕生日おめでとう " * 80
    result = make_assembly(full, model="gpt-5", system=text, history=text)
    tokens = len(O200K.encode_ordinary(text))
    assert (result.allocation.system, result.allocation.history) == (tokens, tokens)
    assert tokens < len(CL100K.encode_ordinary(text))


def test_a_factor_bounds_the_models_tokens(full: Space) -> None:
    result = make_assembly(full, model=CLAUDE, context_tokens=900)
    proof = result.certificate
    assert (proof.encoding, proof.model, proof.factor_source) == ("cl100k_base", CLAUDE, "shipped")
    assert proof.tokens == len(CL100K.encode_ordinary(result.text))
    assert proof.tokens < proof.tokens_at_most == result.stats.tokens_used <= 900
    row = logged(result)
    assert row.certificate == proof
    assert verify_assembly(row.payload) == []
    again = replay_assembly(row)
    assert again.is_same
    assert again.result is not None
    assert again.result.certificate == proof


def test_learned_factors_replace_shipped_ones(team: Team, full: Space) -> None:
    shipped = make_assembly(full, model=CLAUDE, context_tokens=900)
    learn(team)
    learned = make_assembly(full, model=CLAUDE, context_tokens=900)
    assert learned.certificate.factor_source == "learned"
    assert learned.certificate.factor_prompts == 2_140
    assert "from 2,140 prompts: at most" in learned.certificate.statement
    assert learned.stats.records_included > shipped.stats.records_included
    # The log has the factors of then.
    TokenFactor.objects.update(limit=20_000)
    for result in (shipped, learned):
        row = logged(result)
        assert verify_assembly(row.payload) == []
        assert replay_assembly(row).is_same


def test_factors_of_another_team_or_of_few_prompts_are_not_used(team: Team, other_team: Team) -> None:
    learn(other_team)
    learn(team, prompts=199)
    tokenizer = choose_tokenizer(team.pk, model=CLAUDE, encoding=None)
    assert tokenizer.measure("会議の結果を共有します。", 0).source == "shipped"
    TokenFactor.objects.filter(team=team).update(prompts=200)
    tokenizer = choose_tokenizer(team.pk, model=CLAUDE, encoding=None)
    assert tokenizer.measure("会議の結果を共有します。", 0).prompts == 200


def test_an_unknown_model_is_a_warning_until_its_prompts_have_taught(team: Team, full: Space) -> None:
    result = make_assembly(full, model="our-own")
    [warning] = result.warnings
    assert warning.code == "unknown_model"
    assert str(warning).startswith(
        "The model 'our-own' is unknown, so its tokens are counted with cl100k_base."
    )
    assert result.saving_counts
    assert replay_assembly(logged(result)).is_same
    learn(team, "our-own", "prose")
    taught = make_assembly(full, model="our-own")
    assert not taught.warnings
    # Nothing was learned about their kind of text yet, so the largest factor is taken.
    assert taught.certificate.factor == 1.31


def test_model_and_encoding_together_are_an_error_that_names_both(full: Space) -> None:
    with pytest.raises(InvalidInput, match="not both") as caught:
        make_assembly(full, model="gpt-5", encoding="o200k_base")
    assert [problem.field for problem in caught.value.problems] == ["model", "encoding"]


def test_a_models_encoding_stays_under_other_settings(full: Space) -> None:
    row = logged(make_assembly(full, model="gpt-5", context_tokens=700))
    smaller = replay_assembly(row, ReplayIn(settings={"context_tokens": 300}))
    assert smaller.result is not None
    assert smaller.result.certificate.encoding == "o200k_base"
    assert len(O200K.encode_ordinary(smaller.result.text)) <= 300
    with pytest.raises(InvalidInput, match="decides its encoding"):
        replay_assembly(row, ReplayIn(settings={"encoding": "cl100k_base"}))


def test_counts_in_another_encoding_are_kept(full: Space) -> None:
    make_assembly(full, model="gpt-5")
    before = count_line.cache_info()
    make_assembly(full, model="gpt-5")
    after = count_line.cache_info()
    assert after.misses == before.misses
    assert after.hits > before.hits


def test_only_a_model_with_factors_costs_a_query(full: Space) -> None:
    plain = count_queries(lambda: make_assembly(full))
    assert count_queries(lambda: make_assembly(full, model="gpt-5")) == plain
    # The factors that the team has learned.
    assert count_queries(lambda: make_assembly(full, model=CLAUDE)) == plain + 1


def test_money_takes_the_mean(team: Team, full: Space) -> None:
    learn(team)
    row = logged(make_assembly(full, model=CLAUDE))
    assert row.mean_share == pytest.approx(1.2 / 1.31)
    split = Split(0, 0, 1_000_000)
    cost = cost_of(row, split, PriceBook())
    row.factor = row.factor_mean = None
    at_most = cost_of(row, split, PriceBook())
    assert cost is not None
    assert at_most is not None
    assert at_most.dollars
    assert cost.dollars == pytest.approx(at_most.dollars * 1.2 / 1.31)
