"""The cost of prompts after the provider's cache, against figures worked out by hand."""

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from contextopt.assemblies.models import Assembly
from contextopt.chat.models import Author, Conversation, Message, MessageState
from contextopt.spaces.models import Space
from dashboard.pages.overview.cost import build_cost, project_month, read_reported, saving_of
from dashboard.pages.overview.figures import Figures, read_series
from dashboard.rollups.fold import keep_rollups
from dashboard.rollups.models import ModelPrice
from tests.dashboard.conftest import html_of
from tests.dashboard.pages.overview.test_figures import JUST_NOW, NOW, ask, log_row, settle
from tests.dashboard.pages.overview.test_overview import tile_of
from tests.factories import make_gateway_request

pytestmark = pytest.mark.usefixtures("noon")

PROMPT = {"prompt_tokens": 4_000, "shared_prefix_tokens": 3_000, "cached_tokens": 3_000}
NEW = {"prompt_tokens": 4_000, "shared_prefix_tokens": 0, "cached_tokens": 0}


def log_prompt(space: Space, at: datetime = JUST_NOW, **overrides: Any) -> Assembly:
    prompt = {"model": "own", "conversation": "c-1", **PROMPT} | overrides
    prompt.setdefault("cacheable_tokens", prompt["prompt_tokens"] - prompt["cached_tokens"])
    return log_row(space, at, **prompt)


def enter_price(model: str = "own", dollars: int = 10, **overrides: Any) -> ModelPrice:
    cache = {"cached_read_dollars": Decimal(1), "cache_write_dollars": Decimal("12.5")}
    return ModelPrice.objects.create(
        model=model, dollars_per_million=Decimal(dollars), **{**cache, **overrides}
    )


def test_cached_tokens_are_read_and_new_ones_written(space: Space) -> None:
    enter_price()
    log_prompt(space)
    log_prompt(space, prompt_tokens=500, shared_prefix_tokens=400, cached_tokens=0, cacheable_tokens=0)
    total = read_series(ask(space.team)).total
    # A short prompt is not cached at all.
    assert total.dollars == pytest.approx((3_000 * 1 + 1_000 * 12.5 + 500 * 10) / 1e6)
    assert total.dollars_anew == pytest.approx((4_000 * 12.5 + 500 * 10) / 1e6)
    assert (total.prompts, total.priced, total.prompt_tokens) == (2, 2, 4_500)
    assert total.shared_rate == pytest.approx(3_400 / 4_500)
    assert total.cached_rate == pytest.approx(3_000 / 4_500)


def test_a_saving_is_worth_the_mean_price_of_its_prompts(owner_client: Client, space: Space) -> None:
    enter_price()
    log_prompt(space)
    saving = saving_of(read_series(ask(space.team)), {"space"})
    # 100 tokens, of prompts whose 4,000 tokens cost 3,000 × 1 + 1,000 × 12.5 millionths.
    assert saving.dollars == pytest.approx(100 * 15_500 / 4_000 / 1e6)
    assert saving.dollars_listed == pytest.approx(100 * 10 / 1e6)
    settle(space)
    tile = tile_of(html_of(owner_client, "/"), "saved")
    assert "worth about $0.00039 after the cache, $0.0010 at list price, for 1 of 21 contexts<" in tile
    # A context without a conversation saves as much, but its worth is unknown.
    log_row(space, JUST_NOW, model="own")
    keep_rollups()
    again = saving_of(read_series(ask(space.team)), {"space"})
    assert (again.tokens_saved, again.dollars) == (200, pytest.approx(saving.dollars))
    assert "at list price, for 1 of 22 contexts<" in tile_of(html_of(owner_client, "/"), "saved")


def test_extra_tokens_are_a_cost(owner_client: Client, space: Space) -> None:
    enter_price()
    log_prompt(space, tokens_before=400, tokens_after=500)
    settle(space)
    tile = tile_of(html_of(owner_client, "/"), "saved")
    assert "cost about $0.00039 more after the cache, $0.0010 at list price, for 1 of 21 contexts<" in tile


@pytest.mark.parametrize("range_name", ["24h", "30d"])
def test_the_months_saving_is_projected_in_dollars_too(
    owner_client: Client, space: Space, range_name: str
) -> None:
    wanted = ask(space.team, range_name)
    assert project_month(read_series(wanted), wanted, NOW).dollars is None
    enter_price()
    for at in (JUST_NOW, *(NOW - timedelta(days=days) for days in (2, 5, 13))):
        log_prompt(space, at)
    each = 100 * 15_500 / 4_000 / 1e6
    # Two prompts in the last 7 days, then 15.5 more days.
    expected = 4 * each + 2 * each / 7 * 15.5
    assert project_month(read_series(wanted), wanted, NOW).dollars == pytest.approx(expected)
    settle(space)
    tile = tile_of(html_of(owner_client, f"/?range={range_name}"), "month")
    assert "priced part: about $0.0033" in tile


def test_tokens_alone_give_no_money(space: Space) -> None:
    enter_price()
    log_row(space, JUST_NOW, model="own")
    total = read_series(ask(space.team)).total
    assert (total.assemblies, total.prompts, total.priced, total.dollars) == (1, 0, 0, None)


def test_a_model_without_a_price_counts_and_costs_nothing(space: Space) -> None:
    enter_price()
    log_prompt(space)
    log_prompt(space, model="nobody-knows-it")
    log_prompt(space, model="")
    log_row(space, JUST_NOW)
    keep_rollups()
    total = read_series(ask(space.team)).total
    assert (total.contexts, total.prompts, total.priced) == (4, 3, 1)
    card = build_cost(total, Figures(), read_reported(ask(space.team)), "")
    assert card.missing == (
        "1 of 4 contexts have a price: 1 names no conversation, so its cache is unknown; "
        "2 have a model without a price, or no model."
    )


def test_the_package_has_prices_of_its_own(space: Space) -> None:
    log_prompt(space, model="claude-sonnet-4-5")
    keep_rollups()
    total = read_series(ask(space.team)).total
    assert total.dollars == pytest.approx((3_000 * 0.3 + 1_000 * 3.75) / 1e6)


def test_each_day_has_its_price_whenever_it_was_entered(space: Space) -> None:
    for days in (0, 2, 4):
        log_prompt(space, JUST_NOW - timedelta(days=days), **NEW)
    keep_rollups()
    assert read_series(ask(space.team)).total.dollars is None
    enter_price(dollars=10, effective_from=NOW.date() - timedelta(days=3), cache_write_dollars=None)
    assert read_series(ask(space.team)).total.dollars == pytest.approx(2 * 0.04)
    enter_price(dollars=30, effective_from=NOW.date(), cache_write_dollars=None)
    series = read_series(ask(space.team))
    assert series.total.dollars == pytest.approx(0.04 + 0.12)
    dollars = [point.dollars for point in series.points if point.prompts]
    assert dollars == [None, pytest.approx(0.04), pytest.approx(0.12)]


@pytest.mark.parametrize("range_name", ["24h", "14d"])
def test_the_day_is_the_teams(space: Space, range_name: str) -> None:
    space.team.time_zone = "Asia/Tokyo"
    space.team.save(update_fields=["time_zone"])
    enter_price(dollars=10, cache_write_dollars=None)
    enter_price(dollars=30, effective_from=date(2026, 6, 15), cache_write_dollars=None)
    # In Tokyo it is the 15th from 15:00 UTC on the 14th.
    log_prompt(space, datetime.fromisoformat("2026-06-14T14:50Z"), **NEW)
    log_prompt(space, datetime.fromisoformat("2026-06-14T15:10Z"), **NEW)
    keep_rollups()
    total = read_series(ask(space.team, range_name, zone="Asia/Tokyo")).total
    assert total.dollars == pytest.approx(0.04 + 0.12)


def test_the_page_says_what_prompts_cost_and_why(owner_client: Client, space: Space) -> None:
    enter_price(dollars=10_000, cached_read_dollars=Decimal(1_000), cache_write_dollars=Decimal(10_000))
    log_prompt(space)
    html = html_of(owner_client, "/")
    # 3,000 tokens at a tenth and 1,000 in full.
    assert "$13" in tile_of(html, "cost")
    assert "75 <small>%</small>" in tile_of(html, "shared")
    assert "no endpoint reported any" in tile_of(html, "cached")
    assert "1 of 1 context has a price." in html
    assert "these prompts cost $13 instead of $40" in html
    assert "must shorten prompts by 68 %" in html


def test_without_prices_the_page_says_so(owner_client: Client, space: Space) -> None:
    log_prompt(space)
    html = html_of(owner_client, "/")
    assert "–" in tile_of(html, "cost")
    assert "0 of 1 context has a price" in html
    assert "An administrator can set model prices" in html


def test_without_conversations_the_page_asks_for_them(owner_client: Client, space: Space) -> None:
    log_row(space, JUST_NOW)
    html = html_of(owner_client, "/")
    assert 'id="tile-cost"' not in html
    assert "Name the conversation in your requests" in html


def test_reported_tokens_stand_beside_and_an_absent_report_is_not_zero(space: Space) -> None:
    conversation = Conversation.objects.create(team=space.team, space=space, title="Chat")
    for number, cached in enumerate((1_000, 0, None)):
        asked = Message.objects.create(
            conversation=conversation, author=Author.USER, text="?", state=MessageState.ANSWERED,
            assembly=log_prompt(space), idempotency_key=f"key-{number}", created_at=JUST_NOW,
        )  # fmt: skip
        Message.objects.create(
            conversation=conversation, author=Author.ASSISTANT, text="!", state=MessageState.ANSWERED,
            reply_to=asked, prompt_tokens=2_000, cached_tokens=cached, created_at=NOW,
        )  # fmt: skip
    for is_inserted in (True, False):
        make_gateway_request(
            space, mode="insert", is_inserted=is_inserted, assembly=log_prompt(space), created_at=NOW,
            input_tokens=1_000, cached_tokens=500,
        )  # fmt: skip
    reported = read_reported(ask(space.team))
    assert (reported.answers, reported.rate) == (3, 0.3)
    assert read_reported(ask(space.team, model="other")).rate is None
    total = read_series(ask(space.team)).total
    cached = build_cost(total, Figures(), reported, "").tiles[2]
    assert (cached.value, cached.fact) == ("75", "30 % reported for 3 answers")
