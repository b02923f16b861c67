"""Prices that a team enters: of a day, and of cached tokens."""

from datetime import date, timedelta
from decimal import Decimal

import pytest
from django.test import Client

from contextopt.assemblies.placement.modelcatalog import cache_prices
from dashboard.rollups.models import ModelPrice
from tests.factories import NOW

pytestmark = pytest.mark.django_db
TODAY = NOW.date()


def test_entered_prices_go_before_the_package_from_their_day_on() -> None:
    ModelPrice.objects.create(
        model="gpt-4o", dollars_per_million=Decimal(4), cached_read_dollars=Decimal(1),
        cache_write_dollars=Decimal(5), minimum_tokens=2_048, effective_from=TODAY,
    )  # fmt: skip
    prices = cache_prices("gpt-4o", TODAY)
    assert (prices.read, prices.write, prices.minimum_tokens) == (0.25, 1.25, 2_048)
    assert cache_prices("gpt-4o", TODAY - timedelta(days=1)).read == 0.5


def test_without_a_price_of_cached_reads_the_package_decides() -> None:
    ModelPrice.objects.create(model="gpt-4o", dollars_per_million=Decimal(4))
    assert cache_prices("gpt-4o", TODAY).read == 0.5


def test_the_admin_fills_in_the_prices_of_the_cache(admin_client: Client) -> None:
    response = admin_client.post(
        "/admin/dashboard/modelprice/add/",
        {
            "model": "claude-sonnet-4-5", "dollars_per_million": "3", "minimum_tokens": "1024",
            "lifetime_seconds": "300", "effective_from": "2026-01-01", "source": "",
            "cached_read_dollars": "", "cache_write_dollars": "",
        },
    )  # fmt: skip
    assert response.status_code == 302
    price = ModelPrice.objects.get()
    assert (price.cached_read_dollars, price.cache_write_dollars) == (Decimal("0.3"), Decimal("3.75"))
    assert price.source.startswith("cache: genai-prices ")
    assert price.effective_from == date(2026, 1, 1)
