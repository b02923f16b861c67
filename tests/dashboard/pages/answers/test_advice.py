from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.settings import ContextConfig
from contextopt.people.models import Role, Team
from contextopt.spaces.configs import publish_settings
from contextopt.spaces.models import Space
from dashboard.pages.answers.reviewitems import Case, advise
from memory.review.inputs import VerdictIn
from memory.review.models import Verdict
from memory.review.reservations import give_verdict, reserve_item
from tests import factories
from tests.dashboard.conftest import html_of, log_in
from tests.factories import NOW
from tests.memory.factories import make_review

MISSING = Case("support", 1, "context_missing", 3, 0, 0, 0, 0, ContextConfig())


@pytest.fixture
def reviewer(team: Team) -> Client:
    return log_in(factories.make_user("rita", team, Role.REVIEWER))


def judge(space: Space, verdict: str, **options: object) -> None:
    item = make_review(space, **options)
    reserve_item(item=item, reviewer="user:rita")
    give_verdict(item=item, reviewer="user:rita", data=VerdictIn(verdict=verdict))


def settings_advice(reviewer: Client) -> str:
    html = html_of(reviewer, "/review/")
    return " ".join(html.split('id="configs-title"')[1].split("</section>")[0].split())


def test_a_window_that_left_records_out_is_widened(reviewer: Client, space: Space) -> None:
    factories.make_record(space, date=NOW - timedelta(days=200))
    judge(space, "context_missing", as_of=NOW)
    judge(space, "context_missing", as_of=NOW)
    advice = settings_advice(reviewer)
    assert "Widen the date window (14 days): 2 of 2 contexts left out records outside it." in advice
    assert "record limit" not in advice


def test_a_window_of_all_is_not_widened(reviewer: Client, space: Space) -> None:
    publish_settings(space=space, created_by="user:ada", window_days=None, max_records=1)
    for days in (1, 200):
        factories.make_record(space, date=NOW - timedelta(days=days))
    judge(space, "context_missing", as_of=NOW)
    advice = settings_advice(reviewer)
    assert "date window" not in advice
    assert "Raise the record limit (1 records): 1 of 1 context left out records over it." in advice


def test_advice_follows_the_case() -> None:
    assert advise(MISSING).startswith("No setting left a record out. Check whether the space")
    assert advise(replace(MISSING, asked=2)).startswith("No setting left a record out. Raise the weights")
    assert "(2,000 tokens): 1 of 3 contexts" in advise(replace(MISSING, over_budget=1))
    cut = replace(MISSING, verdict="context_cut")
    assert advise(cut).startswith("Put the main point first")
    assert advise(replace(cut, over_budget=1)) == "Raise the context budget (2,000 tokens)."
    assert advise(replace(cut, asked=3, settings=ContextConfig(question_notes_chars=500))) == (
        "Raise the notes limit (500 characters) or raise the record size (120 tokens)."
    )
    wrong = replace(MISSING, verdict="context_wrong")
    assert advise(wrong).startswith("Raise the recency weight (0.7)")
    assert advise(replace(wrong, asked=3)).startswith("Correct or delete")
    assert advise(replace(wrong, settings=ContextConfig(recency_weight=Decimal(10)))).startswith(
        "Correct or delete"
    )


COUNTS = st.integers(0, 3)
LIMITS = st.none() | st.integers(1, 90)


@given(
    verdict=st.sampled_from(sorted(set(Verdict.values) - {Verdict.NO_PROBLEM})),
    counts=st.tuples(COUNTS, COUNTS, COUNTS, COUNTS),
    limits=st.tuples(LIMITS, LIMITS, LIMITS, LIMITS, LIMITS, st.none() | st.integers(64, 200)),
)
def test_no_advice_eases_a_setting_that_bounds_nothing(
    verdict: str, counts: tuple[int, int, int, int], limits: tuple[int | None, ...]
) -> None:
    window, limit, question_window, question_limit, notes, size = limits
    settings = ContextConfig(
        window_days=window, max_records=limit, question_window_days=question_window,
        question_max_records=question_limit, question_notes_chars=notes, question_record_tokens=size,
    )  # fmt: skip
    case = Case("support", 1, verdict, 3, *counts, settings)
    advice = advise(case)
    assert advice
    is_asked = counts[0] > 1
    for words, setting, left_out in (
        ("date window", question_window if is_asked else window, counts[1]),
        ("record limit", question_limit if is_asked else limit, counts[2]),
        ("notes limit", notes if is_asked else None, 1),
        ("record size", size if is_asked else None, 1),
        ("context budget", 2_000, counts[3]),
    ):
        if setting is None or not left_out:
            assert words not in advice
