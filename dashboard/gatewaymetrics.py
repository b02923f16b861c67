"""The gateway's figures for Prometheus, and histograms in its form."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from django.db import connection
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric

from dashboard.rollups.histograms import ASSEMBLY_MS, Floats

# Each edge for Prometheus is twice the previous one. Stored histograms have this many steps per doubling.
_STEPS = 6
_SUMMED = (
    "requests", "inserted", "failed", "abandoned", "input_tokens", "output_tokens", "cached_tokens",
    "cache_write_tokens",
)  # fmt: skip
_TOTALS = f"""
SELECT mode, reason, {", ".join(f"sum({name})" for name in _SUMMED)}, vector_send(sum(added_histogram))
  FROM dashboard_trafficday GROUP BY mode, reason
"""
_TOKENS = {
    "input_tokens": "input", "output_tokens": "output", "cached_tokens": "cached",
    "cache_write_tokens": "cache_write",
}  # fmt: skip

type Totals = dict[tuple[str, str], tuple[Floats, Floats]]


def gateway_metrics() -> Iterator[Metric]:
    totals = _read_totals()
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


def _read_totals() -> Totals:
    with connection.cursor() as cursor:
        cursor.execute(_TOTALS)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return {
        (mode, reason): (
            np.array([float(value) for value in sums]),
            ASSEMBLY_MS.read([bytes(added)])[0],
        )
        for mode, reason, *sums, added in rows
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
