from datetime import timedelta
from typing import Any

import numpy as np
import pytest
import time_machine
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Scope
from contextopt.spaces.models import Space
from dashboard.metrics import doubling_buckets
from dashboard.rollups.histograms import ASSEMBLY_MS
from dashboard.tasks import fold_assemblies
from tests import factories
from tests.queries import count_at_2_and_20

pytestmark = pytest.mark.django_db
TOKEN = "a-token-for-prometheus"


@pytest.fixture(autouse=True)
def _token(settings: Any) -> None:
    settings.METRICS_TOKEN = TOKEN


def ask(**headers: str) -> Any:
    return Client().get("/metrics", headers=headers)


def read(**labels: str) -> dict[str, float]:
    """Return the samples with these labels by name, as Prometheus parses them."""
    response = ask(Authorization=f"Bearer {TOKEN}", Accept="text/plain")
    assert response.status_code == 200
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(response.content.decode())
        for sample in family.samples
        if sample.labels == labels
    }


@pytest.mark.parametrize(
    "headers",
    [{}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}, {"X-API-Key": "wrong"}],
)
def test_a_stranger_sees_nothing(headers: dict[str, str]) -> None:
    response = ask(**headers)
    assert (response.status_code, response.content) == (401, b"")


def test_without_a_token_an_empty_one_opens_nothing(settings: Any) -> None:
    settings.METRICS_TOKEN = ""
    assert ask(Authorization="Bearer ").status_code == 401
    assert ask().status_code == 401


@pytest.mark.parametrize(("scope", "status"), [("read", 401), ("write", 401), ("admin", 200)])
def test_a_key_needs_scope_admin(space: Space, scope: str, status: int) -> None:
    _, secret = factories.make_key(space.team, Scope(scope))
    assert ask(Authorization=f"Bearer {secret}").status_code == status
    assert ask(**{"X-API-Key": secret}).status_code == status


def test_wrong_keys_are_limited() -> None:
    with time_machine.travel(timezone.now(), tick=False):
        statuses = [ask(Authorization="Bearer ctx_guess").status_code for _ in range(32)]
    assert statuses == [401] * 30 + [429] * 2


def test_totals_are_the_logs_whether_folded_or_not(space: Space) -> None:
    factories.make_record(space)
    factories.make_assembly(space)
    fold_assemblies()
    factories.make_assembly(space)
    rows = list(Assembly.objects.values_list("tokens_after", "tokens_before"))
    found = read(kind="space")
    assert found["contextopt_assemblies_total"] == 2
    assert found["contextopt_tokens_sent_total"] == sum(after for after, _ in rows)
    assert found["contextopt_tokens_saved"] == sum(before - after for after, before in rows)
    assert found["contextopt_records_included_total"] == 2
    assert found["contextopt_assembly_seconds_count"] == 2
    took = sum(Assembly.objects.values_list("assembly_ms", flat=True)) / 1_000
    assert found["contextopt_assembly_seconds_sum"] == pytest.approx(took, rel=0.07)


def test_health_is_among_the_figures(space: Space) -> None:
    factories.make_assembly(space)
    found = read()
    assert found["contextopt_up"] == 0
    assert found["contextopt_rollups_behind"] == 1
    assert found["contextopt_database_bytes"] > 1_000_000
    assert read(process="worker") == {"contextopt_process_alive": 0}


def test_prompts_of_the_gateway_are_added_up(space: Space) -> None:
    old = timezone.now() - timedelta(days=40)
    factories.make_gateway_request(space, created_at=old, added_ms=3.0, cached_tokens=9)
    for _ in range(2):
        factories.make_gateway_request(space, mode="insert", is_inserted=True)
    factories.make_gateway_request(space, reason="timeout", outcome="broken")
    factories.make_gateway_request(space, mode="insert", outcome="abandoned", input_tokens=None)
    assert read(mode="insert")["contextopt_gateway_requests_total"] == 3
    assert read(mode="insert")["contextopt_gateway_inserted_total"] == 2
    assert read(mode="insert")["contextopt_gateway_abandoned_total"] == 1
    assert read(mode="insert")["contextopt_gateway_failed_total"] == 0
    found = read(mode="audit")
    assert (found["contextopt_gateway_requests_total"], found["contextopt_gateway_failed_total"]) == (2, 1)
    assert found["contextopt_gateway_added_seconds_count"] == 2
    assert read(reason="timeout") == {"contextopt_gateway_without_context_total": 1}
    assert read(type="input")["contextopt_gateway_tokens_total"] == 4 * 128
    assert read(type="cached")["contextopt_gateway_tokens_total"] == 9


def test_nothing_names_a_team_or_a_space(space: Space) -> None:
    factories.make_assembly(space)
    text = ask(Authorization=f"Bearer {TOKEN}").content.decode()
    assert space.slug not in text
    assert space.team.slug not in text


def test_the_number_of_queries_does_not_grow(space: Space) -> None:
    factories.make_assembly(space)
    factories.make_gateway_request(space)
    read()
    few, many = count_at_2_and_20(read, lambda: factories.make_assembly(space))
    assert few == many


def test_buckets_are_cumulative_and_end_with_all() -> None:
    counts = [0.0] * ASSEMBLY_MS.size
    for ms in (0.1, 0.5, 3.0, 9_000.0):
        counts[ASSEMBLY_MS.bucket_of(ms)] += 1
    buckets = doubling_buckets(np.array(counts))
    assert buckets[0] == ("0.0005", 1.0)
    assert dict(buckets)["0.001"] == 2.0
    assert dict(buckets)["0.004"] == 3.0
    assert buckets[-1] == ("+Inf", 4.0)
    assert [count for _, count in buckets] == sorted(count for _, count in buckets)
