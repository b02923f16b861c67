from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection

from contextopt.assemblies.models import Assembly
from contextopt.gateway.models import GatewayRequest
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from dashboard.kit.periods import custom_period
from dashboard.rollups.histograms import ASSEMBLY_MS
from dashboard.rollups.models import ModelPrice, TrafficDay, TrafficQuarter
from dashboard.rollups.queries import PriceList
from dashboard.rollups.traffic import (
    Groups,
    TrafficFilter,
    read_buckets,
    read_groups,
    read_total,
    read_traffic_prices,
)
from tests import factories
from tests.factories import NOW

pytestmark = pytest.mark.django_db
PRICED = "priced-model"
# Its days begin at a quarter to seven in the evening, UTC.
ZONE = "Asia/Kathmandu"


@pytest.fixture
def team(db: None) -> Team:
    return factories.make_team(time_zone=ZONE)


def over(team: Team, **changes: Any) -> TrafficFilter:
    period = custom_period(date(2026, 6, 9), date(2026, 6, 15), NOW, ZoneInfo(ZONE))
    return replace(TrafficFilter(team.pk, period), **changes)


def read(wanted: TrafficFilter) -> Groups:
    return read_groups(wanted, read_traffic_prices(wanted))


def make(space: Space, **values: Any) -> GatewayRequest:
    return factories.make_gateway_request(space, **{"created_at": NOW - timedelta(hours=1), **values})


def make_many(space: Space, count: int = 60) -> None:
    random = Random(7)
    for _ in range(count):
        is_reported = random.random() < 0.7
        input_tokens = random.randrange(1, 5_000) if is_reported else None
        has_cached = is_reported and random.random() < 0.5
        make(
            space,
            model=random.choice(["a", "b", ""]),
            mode=random.choice(["audit", "insert"]),
            reason=random.choice(["", "", "empty", "timeout"]),
            outcome=random.choice(["answered", "answered", "broken", "abandoned"]),
            status_code=random.choice([200, 429, None]),
            input_tokens=input_tokens,
            output_tokens=random.randrange(100) if is_reported else None,
            cached_tokens=random.randrange(input_tokens) if has_cached and input_tokens else None,
            added_ms=random.expovariate(1 / 20),
            first_byte_ms=random.choice([None, random.uniform(0, 9_000)]),
            created_at=NOW - timedelta(minutes=random.randrange(6 * 24 * 60)),
        )


def test_the_sums_are_the_rows(team: Team, space: Space) -> None:
    make_many(space)
    rows = list(GatewayRequest.objects.all())
    total = read(over(team)).total
    assert total.requests == len(rows)
    assert total.without == sum(row.reason != "" for row in rows)
    stayed = [row for row in rows if row.outcome != "abandoned"]
    assert total.failed == sum(row.outcome != "answered" or (row.status_code or 0) >= 400 for row in stayed)
    assert total.abandoned == len(rows) - len(stayed) > 0
    assert total.input_tokens == sum(row.input_tokens or 0 for row in rows)
    assert total.with_usage == sum(row.input_tokens is not None for row in rows)
    cached = [row for row in rows if row.cached_tokens is not None]
    assert (total.with_cached, total.cached_tokens) == (len(cached), sum(row.cached_tokens for row in cached))
    assert total.cached_share == pytest.approx(total.cached_tokens / sum(row.input_tokens for row in cached))
    times = sorted(row.added_ms for row in rows)
    assert total.added_ms(0.5) == pytest.approx(times[len(times) // 2 - 1], rel=0.13, abs=0.5)


def test_the_times_added_are_among_the_times_of_the_prompts(team: Team, space: Space) -> None:
    make_many(space)
    for model, figures in read(over(team)).by["model"]:
        times = [row.added_ms for row in GatewayRequest.objects.filter(model=model)]
        assert figures.added_ms(0) == min(times)
        assert figures.added_ms(1) == max(times)
        assert min(times) <= figures.added_ms(0.5) <= max(times)


def test_the_times_of_few_prompts_are_exact(team: Team, space: Space) -> None:
    times = [round(1.9 * 1.4**number, 2) for number in range(19)]
    for number, ms in enumerate(times):
        created_at = NOW - timedelta(days=number % 3, hours=1)
        make(space, added_ms=ms, model="ab"[number % 2], created_at=created_at)
    found = read(over(team))
    assert [found.total.added_ms(share) for share in (0.5, 0.95)] == [times[9], times[18]]
    by_model = dict(found.by["model"])
    assert by_model["a"].added_ms(0.5) == times[8]
    assert by_model["b"].added_ms(0.5) == times[9]
    today = read_buckets(over(team), PriceList())[-1]
    assert today.added_ms(0.5) == sorted(times[::3])[3]
    assert read(over(team, model="b")).total.added_ms(0.5) == times[9]
    both = by_model["a"] + by_model["b"]
    assert both.added_ms(0.5) == times[9]


def test_groups_and_buckets_add_up_to_the_total(team: Team, space: Space) -> None:
    make_many(space)
    groups = read(over(team))
    assert read_total(over(team), PriceList()).requests == groups.total.requests
    for found in groups.by.values():
        assert sum(figures.requests for _, figures in found) == groups.total.requests
        assert [figures.requests for _, figures in found] == sorted(
            (figures.requests for _, figures in found), reverse=True
        )
    buckets = read_buckets(over(team), PriceList())
    assert len(buckets) == 7
    assert sum(bucket.requests for bucket in buckets) == groups.total.requests


def test_a_filter_narrows_and_another_team_has_nothing(team: Team, space: Space, other_team: Team) -> None:
    make_many(space)
    expected = GatewayRequest.objects.filter(model="a", mode="audit", reason="empty").count()
    assert read(over(team, model="a", mode="audit", reason="empty")).total.requests == expected > 0
    assert read(over(team, space_id=space.pk)).total.requests == 60
    assert read(over(other_team)).total.requests == 0


def test_a_period_ends_exactly_where_the_teams_days_do(team: Team, space: Space) -> None:
    start = over(team).period.start
    for offset in (-1, 0):
        make(space, created_at=start + timedelta(seconds=offset))
    assert read(over(team)).total.requests == 1


def test_no_report_of_cached_tokens_is_not_0(team: Team, space: Space) -> None:
    make(space, cached_tokens=None)
    assert read(over(team)).total.cached_share is None
    make(space, cached_tokens=0)
    assert read(over(team)).total.cached_share == 0.0


def test_a_price_counts_cached_and_written_tokens_at_their_own(team: Team, space: Space) -> None:
    ModelPrice.objects.create(
        model=PRICED, dollars_per_million=Decimal(10), cached_read_dollars=Decimal(1),
        cache_write_dollars=Decimal("12.5"),
    )  # fmt: skip
    make(space, model=PRICED, input_tokens=1_000_000, cached_tokens=600_000, cache_write_tokens=200_000)
    make(space, model=PRICED, input_tokens=1_000_000, cached_tokens=None)
    make(space, model="nobody-knows-this-model", input_tokens=1_000_000)
    total = read(over(team)).total
    assert total.dollars == pytest.approx(2.0 + 0.6 + 2.5 + 10.0)
    assert (total.priced, total.with_usage) == (2, 3)


def test_without_a_price_there_is_no_money(team: Team, space: Space) -> None:
    make(space, model="nobody-knows-this-model")
    assert read(over(team)).total.dollars is None


def test_the_price_is_that_of_the_day(team: Team, space: Space) -> None:
    for day, dollars in ((date(2000, 1, 1), 10), (date(2026, 6, 12), 20)):
        ModelPrice.objects.create(model=PRICED, dollars_per_million=dollars, effective_from=day)
    for day in (11, 12):
        make(space, model=PRICED, input_tokens=1_000_000, created_at=datetime(2026, 6, day, 12, tzinfo=UTC))
    assert read(over(team)).total.dollars == pytest.approx(30.0)


@pytest.mark.parametrize(("minute", "dollars"), [(14, 10), (15, 20)])
def test_a_price_begins_with_the_teams_day(team: Team, space: Space, minute: int, dollars: int) -> None:
    for day, price in ((date(2000, 1, 1), 10), (date(2026, 6, 15), 20)):
        ModelPrice.objects.create(model=PRICED, dollars_per_million=price, effective_from=day)
    begins = datetime(2026, 6, 14, 18, minute, tzinfo=UTC)
    make(space, model=PRICED, input_tokens=1_000_000, created_at=begins)
    assert read(over(team)).total.dollars == pytest.approx(dollars)


def test_before_the_first_entered_price_the_packages_counts(team: Team, space: Space) -> None:
    ModelPrice.objects.create(model="gpt-4o-mini", dollars_per_million=1, effective_from=date(2026, 6, 12))
    for day in (11, 12):
        created_at = datetime(2026, 6, day, 12, tzinfo=UTC)
        make(space, model="gpt-4o-mini", input_tokens=1_000_000, created_at=created_at)
    assert read(over(team)).total.dollars == pytest.approx(1.15)


def test_models_of_the_period_before_have_prices_too(team: Team, space: Space) -> None:
    make(space, model="gpt-4o-mini", input_tokens=1_000_000, created_at=NOW - timedelta(days=8))
    wanted = over(team)
    before = read_total(wanted.over(wanted.period.before()), read_traffic_prices(wanted))
    assert before.dollars == pytest.approx(0.15)


def test_a_listed_model_has_the_packages_price(team: Team, space: Space) -> None:
    make(space, model="gpt-4o-mini", input_tokens=1_000_000)
    assert read(over(team)).total.dollars == pytest.approx(0.15)


def test_a_repeated_context_saves_once(team: Team, space: Space) -> None:
    factories.make_record(space)
    made = factories.make_assembly(space)
    assembly = Assembly.objects.get(pk=made.id)
    for _ in range(3):
        make(space, assembly=assembly, context_tokens=40)
    total = read(over(team)).total
    assert total.saved_tokens == assembly.tokens_saved
    assert total.context_tokens == 120


def test_a_saving_that_does_not_count_is_left_out(team: Team, space: Space) -> None:
    made = factories.make_assembly(space)  # no records
    assembly = Assembly.objects.get(pk=made.id)
    assert assembly.tokens_saved is None
    make(space, assembly=assembly)
    assert read(over(team)).total.saved_tokens == 0


def test_the_bucket_is_the_histograms() -> None:
    random = Random(3)
    times = [0.0, 0.49, 0.5, 8_191.0, 8_193.0, 1e9, *(random.expovariate(1 / 50) for _ in range(200))]
    with connection.cursor() as cursor:
        for ms in times:
            cursor.execute("SELECT dashboard_one_of_ms(%s)::real[]", [ms])
            counts = cursor.fetchone()[0]
            assert counts.index(1) == ASSEMBLY_MS.bucket_of(ms), ms
            assert (sum(counts), len(counts)) == (1, ASSEMBLY_MS.size)


def test_the_same_quarter_is_one_row(space: Space) -> None:
    for _ in range(5):
        make(space)
    make(space, created_at=NOW)
    assert sorted(TrafficQuarter.objects.values_list("requests", flat=True)) == [1, 5]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/New_York"])
def test_days_are_quarters_added_up_in_the_teams_zone(team: Team, space: Space, zone: str) -> None:
    Team.objects.filter(pk=team.pk).update(time_zone=zone)
    make_many(space)
    assert sum(TrafficDay.objects.values_list("requests", flat=True)) == 60
    for row in TrafficDay.objects.all():
        local = row.start.astimezone(ZoneInfo(zone))
        assert (local.hour, local.minute) == (0, 0)
        same = {name: getattr(row, name) for name in ("space_id", "key_id", "model", "mode", "reason")}
        quarters = TrafficQuarter.objects.filter(
            **same, start__gte=row.start, start__lt=row.start + timedelta(days=1)
        )
        for name in ("requests", "input_tokens", "cached_tokens", "failed", "abandoned"):
            assert getattr(row, name) == sum(quarters.values_list(name, flat=True)), name


def test_days_follow_a_change_of_zone(team: Team, space: Space) -> None:
    Team.objects.filter(pk=team.pk).update(time_zone="UTC")
    make_many(space)
    Team.objects.filter(pk=team.pk).update(time_zone=ZONE)
    assert {row.start.astimezone(ZoneInfo("Asia/Kathmandu")).hour for row in TrafficDay.objects.all()} == {0}
    assert read(over(team)).total.requests == 60


def test_a_deleted_space_takes_its_figures_along(team: Team, space: Space) -> None:
    make(space)
    space.delete()
    assert not TrafficQuarter.objects.exists()
    assert not TrafficDay.objects.exists()


def test_figures_take_one_query_each(team: Team, space: Space, django_assert_num_queries: Any) -> None:
    make_many(space)
    with django_assert_num_queries(3):  # the models in use, their prices, the groups
        read(over(team))
