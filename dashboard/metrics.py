"""The installation's figures for Prometheus.

All figures are read from the database, so that any web process gives the same answer, whatever process did
the work, and a restart resets nothing. They cover all teams and name none.
"""

import secrets
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from django.conf import settings
from django.db import DatabaseError
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

from contextopt.people.keys import find_key, read_secret
from contextopt.people.logins import count_wrong_key
from contextopt.people.models import Scope
from contextopt.sql import fetch_all, fetch_rows
from dashboard.health import HealthJson, read_health
from dashboard.rollups.histograms import ASSEMBLY_MS, Floats
from dashboard.rollups.measures import QUARTER, added_up, columns, measured
from dashboard.rollups.queries import FRESH_ROWS

# Each edge for Prometheus is twice the previous one. Stored histograms have this many steps per doubling.
_STEPS = 6
_SUMMED = (
    "requests", "inserted", "failed", "abandoned", "input_tokens", "output_tokens", "cached_tokens",
    "cache_write_tokens",
)  # fmt: skip
_GATEWAY_TOTALS = f"""
SELECT mode, reason, {", ".join(f"sum({name})" for name in _SUMMED)}, vector_send(sum(added_histogram))
  FROM dashboard_trafficday GROUP BY mode, reason
"""
_TOKENS = {
    "input_tokens": "input", "output_tokens": "output", "cached_tokens": "cached",
    "cache_write_tokens": "cache_write",
}  # fmt: skip

type Totals = dict[tuple[str, str], tuple[Floats, Floats]]


def gateway_metrics() -> Iterator[Metric]:
    totals = _read_gateway_totals()
    modes = sorted({mode for mode, _ in totals})
    for name, text, column in (
        ("contextopt_gateway_requests", "Prompts that passed the gateway.", "requests"),
        ("contextopt_gateway_inserted", "Prompts that got a context.", "inserted"),
        ("contextopt_gateway_failed", "Prompts without an answer, or with the provider's error.", "failed"),
        ("contextopt_gateway_abandoned", "Prompts whose client left before the answer ended.", "abandoned"),
    ):
        family = CounterMetricFamily(name, text, labels=["mode"])
        for mode in modes:
            family.add_metric([mode], _sum(totals, column, mode=mode))
        yield family
    without = CounterMetricFamily(
        "contextopt_gateway_without_context", "Prompts that went on without a context.", labels=["reason"]
    )
    for reason in sorted({reason for _, reason in totals if reason}):
        without.add_metric([reason], _sum(totals, "requests", reason=reason))
    yield without
    tokens = CounterMetricFamily("contextopt_gateway_tokens", "The providers' figures.", labels=["type"])
    for column, kind in _TOKENS.items():
        tokens.add_metric([kind], _sum(totals, column))
    yield tokens
    yield _added(totals, modes)


def _added(totals: Totals, modes: list[str]) -> Metric:
    family = HistogramMetricFamily(
        "contextopt_gateway_added_seconds",
        "Time that the gateway added. The sum is estimated from buckets 12 % wide.",
        labels=["mode"],
    )
    for mode in modes:
        counts = np.sum([added for (name, _), (_, added) in totals.items() if name == mode], axis=0)
        family.add_metric([mode], doubling_buckets(counts), estimated_seconds(counts))
    return family


def _sum(totals: Totals, column: str, **labels: str) -> float:
    at = _SUMMED.index(column)
    return float(
        sum(
            sums[at]
            for (mode, reason), (sums, _) in totals.items()
            if labels.get("mode", mode) == mode and labels.get("reason", reason) == reason
        )
    )


def _read_gateway_totals() -> Totals:
    return {
        (mode, reason): (
            np.array([float(value) for value in sums]),
            ASSEMBLY_MS.read([bytes(added)])[0],
        )
        for mode, reason, *sums, added in fetch_all(_GATEWAY_TOTALS)
    }


def doubling_buckets(counts: Floats) -> list[tuple[str, float]]:
    """Return cumulative counts of a histogram of milliseconds, by upper edge in seconds."""
    upto = counts.cumsum()
    edges = ASSEMBLY_MS.edges
    shown = [(str(edges[n] / 1_000), float(upto[n])) for n in range(0, len(edges), _STEPS)]
    return [*shown, ("+Inf", float(upto[-1]))]


def estimated_seconds(counts: Floats) -> float:
    """Return the sum of a histogram of milliseconds, in seconds, as if each value were in mid-bucket."""
    edges = ASSEMBLY_MS.edges
    # The last bucket has no upper edge.
    middles = [(low + high) / 2 for low, high in pairwise((0.0, *edges, edges[-1]))]
    return float(counts @ middles) / 1_000


_COUNTED = (
    "assemblies", "truncated", "empties", "records_included", "tokens_before", "tokens_after",
    "tokens_saved", ASSEMBLY_MS.name,
)  # fmt: skip
_NAMES = columns(_COUNTED)
# Days are the shortest rollups that cover everything: a year of 20 spaces takes some 20 ms.
_TOTALS = f"""
SELECT kind, {added_up(tuple(name for name in _COUNTED if name != ASSEMBLY_MS.name))},
       vector_send(sum({ASSEMBLY_MS.name})) AS {ASSEMBLY_MS.name}
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
        yield from _assembly_metrics(fetch_rows(dict, _TOTALS, {"fresh_rows": FRESH_ROWS}))
        yield from gateway_metrics()


def _health_metrics(health: HealthJson) -> Iterator[Metric]:
    up = GaugeMetricFamily("contextopt_up", "1 if nothing needs attention.", value=float(health["ok"]))
    yield up
    alive = GaugeMetricFamily("contextopt_process_alive", "1 if the process reports.", labels=["process"])
    alive.add_metric(["worker"], float(health["worker_alive"]))
    alive.add_metric(["chat_worker"], float(health["chat_worker_alive"]))
    alive.add_metric(["schedule"], float(health["schedule_alive"]))
    yield alive
    waiting = GaugeMetricFamily("contextopt_jobs_waiting", "Jobs in a queue.", labels=["queue"])
    for name, length in (("jobs", health["queue_length"]), ("chat", health["chat_queue_length"])):
        if length is not None:
            waiting.add_metric([name], length)
    yield waiting
    for name, text, value in (
        ("embedding_backlog", "Texts that are not embedded yet.", health["embedding_backlog"]),
        ("rollups_behind", "Assemblies that are in no rollup yet.", health["rollups_behind"]),
        ("rollups_behind_seconds", "Age of the oldest of them.", health["rollups_behind_seconds"]),
        ("database_bytes", "Size of the database.", health["database_bytes"]),
        ("disk_free_bytes", "Free space on the database's disk.", health["disk_free_bytes"]),
        ("disk_total_bytes", "Size of the database's disk.", health["disk_total_bytes"]),
    ):
        if value is not None:
            yield GaugeMetricFamily(f"contextopt_{name}", text, value=value)


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
