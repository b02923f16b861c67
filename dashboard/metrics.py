"""The installation's figures for Prometheus.

All figures are read from the database, so that any web process gives the same answer, whatever process did
the work, and a restart resets nothing. They cover all teams and name none.
"""

import secrets
from collections.abc import Iterable, Iterator
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from psycopg_pool import PoolTimeout

from contextopt.models import Scope
from contextopt.people.keychecks import find_key, read_secret
from contextopt.people.logins import count_wrong_key
from dashboard.gatewaymetrics import doubling_buckets, estimated_seconds, gateway_metrics
from dashboard.health import Health, read_health
from dashboard.rollups.histograms import ASSEMBLY_MS
from dashboard.rollups.measures import QUARTER, added_up, columns, measured
from dashboard.rollups.sources import FRESH_ROWS

_COUNTED = (
    "assemblies", "truncated", "empties", "records_included", "tokens_before", "tokens_after",
    "tokens_saved", ASSEMBLY_MS.name,
)  # fmt: skip
_NAMES = columns(_COUNTED)
# Days are the shortest rollups that cover everything: a year of 20 spaces takes some 20 ms.
_TOTALS = f"""
SELECT kind, {added_up(tuple(name for name in _COUNTED if name != ASSEMBLY_MS.name))},
       vector_send(sum({ASSEMBLY_MS.name}))
  FROM (
    SELECT kind, {_NAMES} FROM dashboard_dayrollup
    UNION ALL
    SELECT kind, {_NAMES} FROM (
        {
    measured(
        QUARTER,
        '''FROM (SELECT assembly_id FROM dashboard_unfoldedassembly LIMIT %(fresh_rows)s) u
           JOIN contextopt_assembly a ON a.id = u.assembly_id''',
    )
}
    ) AS fresh
  ) AS counted
 GROUP BY kind ORDER BY kind
"""
# Name, help and column of the totals by kind.
_COUNTERS = (
    ("contextopt_assemblies", "Assemblies.", "assemblies"),
    ("contextopt_assemblies_truncated", "Assemblies that left out records.", "truncated"),
    ("contextopt_assemblies_empty", "Contexts of spaces without records.", "empties"),
    ("contextopt_records_included", "Records in contexts.", "records_included"),
    ("contextopt_tokens_sent", "Tokens of contexts.", "tokens_after"),
    ("contextopt_tokens_baseline", "Tokens of the baselines, where a saving counts.", "tokens_before"),
)


@require_GET
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer a Prometheus server that sends `METRICS_TOKEN` or an admin's API key."""
    if not _may_read(request):
        return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer"}, content_type="text/plain")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(InstallationCollector())
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    try:
        return HttpResponse(encode(registry), content_type=content_type)
    except (DatabaseError, PoolTimeout):
        return HttpResponse("database unavailable\n", status=503, content_type="text/plain")


def _may_read(request: HttpRequest) -> bool:
    """Check the token or the key. Raises: TooManyAttempts."""
    given, token = read_secret(request.headers), settings.METRICS_TOKEN
    if token and secrets.compare_digest(given.encode(), token.encode()):
        return True
    key = find_key(given)
    if key is None:
        count_wrong_key(request)
    return key is not None and key.allows(Scope.ADMIN)


class InstallationCollector(Collector):
    """Reads the figures when they are asked for."""

    def collect(self) -> Iterable[Metric]:
        yield from _health_metrics(read_health())
        yield from _assembly_metrics(_read_totals())
        yield from gateway_metrics()


def _health_metrics(health: Health) -> Iterator[Metric]:
    up = GaugeMetricFamily("contextopt_up", "1 if nothing needs attention.", value=float(health.is_ok))
    yield up
    alive = GaugeMetricFamily("contextopt_process_alive", "1 if the process reports.", labels=["process"])
    alive.add_metric(["worker"], float(health.worker_alive))
    alive.add_metric(["chat_worker"], float(health.chat_worker_alive))
    alive.add_metric(["schedule"], float(health.schedule_alive))
    yield alive
    waiting = GaugeMetricFamily("contextopt_jobs_waiting", "Jobs in a queue.", labels=["queue"])
    for name, length in (("jobs", health.queue_length), ("chat", health.chat_queue_length)):
        if length is not None:
            waiting.add_metric([name], length)
    yield waiting
    for name, text, value in (
        ("embedding_backlog", "Texts that are not embedded yet.", health.embedding_backlog),
        ("rollups_behind", "Assemblies that are in no rollup yet.", health.rollups_behind),
        ("rollups_behind_seconds", "Age of the oldest of them.", health.rollups_behind_seconds),
        ("database_bytes", "Size of the database.", health.database_bytes),
        ("disk_free_bytes", "Free space on the database's disk.", health.disk_free_bytes),
        ("disk_total_bytes", "Size of the database's disk.", health.disk_total_bytes),
    ):
        if value is not None:
            yield GaugeMetricFamily(f"contextopt_{name}", text, value=value)


def _read_totals() -> list[dict[str, Any]]:
    with connection.cursor() as cursor:
        cursor.execute(_TOTALS, {"fresh_rows": FRESH_ROWS})
        names = ("kind", *_COUNTED)
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _assembly_metrics(totals: list[dict[str, Any]]) -> Iterator[Metric]:
    for name, text, column in _COUNTERS:
        family = CounterMetricFamily(name, text, labels=["kind"])
        for row in totals:
            family.add_metric([row["kind"]], row[column])
        yield family
    # A saving may be negative, so this is no counter.
    saved = GaugeMetricFamily(
        "contextopt_tokens_saved", "Tokens saved against the baselines.", labels=["kind"]
    )
    seconds = HistogramMetricFamily(
        "contextopt_assembly_seconds",
        "Time to assemble a context. The sum is estimated from buckets 12 % wide.",
        labels=["kind"],
    )
    for row in totals:
        saved.add_metric([row["kind"]], row["tokens_saved"])
        counts = ASSEMBLY_MS.read([row[ASSEMBLY_MS.name]])[0]
        seconds.add_metric([row["kind"]], doubling_buckets(counts), estimated_seconds(counts))
    yield saved
    yield seconds
