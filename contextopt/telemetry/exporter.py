"""Sends spans and metrics by OTLP over HTTP.

The libraries take a tenth of a second to import, so they are imported with the first span, and never without
an endpoint. Batches are sent from threads of their own; a collector that is down delays nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from django.conf import settings

from contextopt.telemetry import names

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, Meter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

SERVICE = "contextopt"
type Attributes = Mapping[str, str | bool | int | float | Sequence[str]]


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The tracer and the instruments of this process."""

    tracer: "Tracer"
    token_usage: "Histogram"
    duration: "Histogram"
    first_chunk: "Histogram"
    assembly: "Histogram"
    added: "Histogram"
    traces: "TracerProvider"
    metrics: "MeterProvider"

    def flush(self) -> None:
        """Send pending spans and metrics. Return when they have arrived or failed."""
        self.traces.force_flush()
        self.metrics.force_flush()

    def shutdown(self) -> None:
        self.traces.shutdown()
        self.metrics.shutdown()


def is_on() -> bool:
    return bool(settings.OTEL_EXPORTER_OTLP_ENDPOINT)


def telemetry() -> Telemetry | None:
    """Return this process's telemetry, or None if there is no endpoint."""
    return start() if is_on() else None


@cache
def start() -> Telemetry:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create()
    # The library's name for a service without a name in OTEL_SERVICE_NAME or elsewhere.
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: SERVICE}))
    traces = TracerProvider(resource=resource)
    traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    metrics = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource)
    meter = metrics.get_meter(SERVICE, schema_url=names.SCHEMA_URL)
    return Telemetry(
        tracer=traces.get_tracer(SERVICE, schema_url=names.SCHEMA_URL),
        token_usage=_histogram(meter, names.USAGE_METRIC, "{token}", "Tokens of a prompt and of its answer."),
        duration=_seconds(meter, names.DURATION_METRIC, "Time from a request to the end of its answer."),
        first_chunk=_seconds(meter, names.FIRST_CHUNK_METRIC, "Time to the first byte of a streamed answer."),
        assembly=_seconds(meter, names.ASSEMBLY_METRIC, "Time to assemble a context."),
        added=_seconds(meter, names.ADDED_METRIC, "Time that the gateway added to a request."),
        traces=traces,
        metrics=metrics,
    )


def _histogram(
    meter: "Meter", name: str, unit: str, description: str, edges: Sequence[float] = names.TOKEN_BOUNDARIES
) -> "Histogram":
    return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=list(edges))


def _seconds(meter: "Meter", name: str, description: str) -> "Histogram":
    edges = names.SECOND_BOUNDARIES
    if name in {names.ASSEMBLY_METRIC, names.ADDED_METRIC}:
        # Both usually take a few milliseconds.
        edges = (0.001, 0.0025, 0.005, *edges)
    return _histogram(meter, name, "s", description, edges)
