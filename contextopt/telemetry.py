"""Reports prompts to an OpenTelemetry collector by OTLP over HTTP, and measures the time that work takes.

Spans and metrics have the names of the GenAI semantic conventions, release 1.41.0, which is the last release
of OpenTelemetry's conventions that contains them. They are not stable yet, and libraries mark them as
incubating, so they are written out here. A test compares them with the package
`opentelemetry-semantic-conventions`, whose version the lock file pins.

Without `OTEL_EXPORTER_OTLP_ENDPOINT` nothing is reported. The libraries take a tenth of a second to import,
so they are imported with the first span. Batches are sent from threads of their own; a collector that is down
delays nothing.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from pydantic_core import to_json

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Histogram, Meter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.0"

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
CONVERSATION: Final = "gen_ai.conversation.id"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
USAGE_TYPE: Final = "gen_ai.token.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"

USAGE_METRIC: Final = "gen_ai.client.token.usage"
DURATION_METRIC: Final = "gen_ai.client.operation.duration"
FIRST_CHUNK_METRIC: Final = "gen_ai.client.operation.time_to_first_chunk"

# The boundaries that the conventions give for the two metrics.
TOKEN_BOUNDARIES: Final = tuple(float(4**power) for power in range(14))
SECOND_BOUNDARIES: Final = tuple(0.01 * 2**power for power in range(14))

# Ours.
TEAM_ID: Final = "contextopt.team.id"
SPACE: Final = "contextopt.space"
ASSEMBLY_ID: Final = "contextopt.assembly.id"
STAGE: Final = "contextopt.stage"
CONTEXT_TOKENS: Final = "contextopt.context.tokens"
TOKENS_AVAILABLE: Final = "contextopt.context.tokens_available"
TOKENS_SAVED: Final = "contextopt.context.tokens_saved"
RECORDS_INCLUDED: Final = "contextopt.records.included"
RECORDS_FILTERED: Final = "contextopt.records.filtered"
TRUNCATED: Final = "contextopt.truncated"
WARNINGS: Final = "contextopt.warnings"
MODE: Final = "contextopt.gateway.mode"
STATUS: Final = "contextopt.gateway.status"
REASON: Final = "contextopt.gateway.reason"
OUTCOME: Final = "contextopt.gateway.outcome"
ADDED_SECONDS: Final = "contextopt.gateway.added"

ASSEMBLY_METRIC: Final = "contextopt.assembly.duration"
ADDED_METRIC: Final = "contextopt.gateway.added"

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


def get_telemetry() -> Telemetry | None:
    """Return this process's tracer and instruments, or None if there is no endpoint."""
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
    meter = metrics.get_meter(SERVICE, schema_url=SCHEMA_URL)
    return Telemetry(
        tracer=traces.get_tracer(SERVICE, schema_url=SCHEMA_URL),
        token_usage=_histogram(meter, USAGE_METRIC, "{token}", "Tokens of a prompt and of its answer."),
        duration=_seconds(meter, DURATION_METRIC, "Time from a request to the end of its answer."),
        first_chunk=_seconds(meter, FIRST_CHUNK_METRIC, "Time to the first byte of a streamed answer."),
        assembly=_seconds(meter, ASSEMBLY_METRIC, "Time to assemble a context."),
        added=_seconds(meter, ADDED_METRIC, "Time that the gateway added to a request."),
        traces=traces,
        metrics=metrics,
    )


def _histogram(
    meter: "Meter", name: str, unit: str, description: str, edges: Sequence[float] = TOKEN_BOUNDARIES
) -> "Histogram":
    return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=list(edges))


def _seconds(meter: "Meter", name: str, description: str) -> "Histogram":
    edges = SECOND_BOUNDARIES
    if name in {ASSEMBLY_METRIC, ADDED_METRIC}:
        # Both usually take a few milliseconds.
        edges = (0.001, 0.0025, 0.005, *edges)
    return _histogram(meter, name, "s", description, edges)


_SECOND = 1_000_000_000
# Values of the standard variable that put content on spans. With any other value, no content is sent.
_CONTENT = {"true", "span_only", "span_and_event"}
_began_at: ContextVar[int | None] = ContextVar("began_at", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeReport:
    """A request that went through the gateway, and its answer. None means unknown.

    `input_tokens` includes what the provider's cache held. `question` and `answer` are the texts that the
    space keeps, so that no collector gets more than that.
    """

    provider: str
    url: str
    team_id: int
    seconds: float
    mode: str
    status: str
    reason: str = ""
    outcome: str = "answered"
    http_status: int | None = None
    model: str = ""
    answer_model: str = ""
    answer_id: str = ""
    conversation: str = ""
    space: str = ""
    is_streamed: bool = False
    first_byte_seconds: float | None = None
    added_seconds: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    written_tokens: int | None = None
    question: str = ""
    answer: str = ""

    @property
    def error(self) -> str:
        """The type of the failure, or an empty text for an answer and for a client that left."""
        if self.http_status is not None and self.http_status >= 400:
            return str(self.http_status)
        return "" if self.outcome in {"answered", "abandoned"} else self.outcome

    def common(self) -> dict[str, str | int]:
        """Return the attributes of the span that the metrics have too."""
        address = urlsplit(self.url)
        port = address.port or {"https": 443, "http": 80}.get(address.scheme)
        known = {
            OPERATION: "chat",
            PROVIDER: self.provider,
            REQUEST_MODEL: self.model,
            RESPONSE_MODEL: self.answer_model,
            SERVER_ADDRESS: address.hostname,
            SERVER_PORT: port,
            ERROR_TYPE: self.error,
        }
        return {name: value for name, value in known.items() if value}

    def attributes(self) -> Attributes:
        known = {
            TEAM_ID: self.team_id,
            SPACE: self.space or None,
            MODE: self.mode,
            STATUS: self.status,
            REASON: self.reason or None,
            OUTCOME: self.outcome,
            ADDED_SECONDS: self.added_seconds,
            REQUEST_STREAM: self.is_streamed,
            RESPONSE_ID: self.answer_id or None,
            CONVERSATION: self.conversation or None,
            FIRST_CHUNK: self.first_byte_seconds if self.is_streamed else None,
            INPUT_TOKENS: self.input_tokens,
            OUTPUT_TOKENS: self.output_tokens,
            CACHE_READ_TOKENS: self.cached_tokens,
            CACHE_WRITE_TOKENS: self.written_tokens,
            INPUT_MESSAGES: _message("user", self.question),
            OUTPUT_MESSAGES: _message("assistant", self.answer),
        }
        given = {name: value for name, value in known.items() if value is not None}
        return {**self.common(), **given}


def _message(role: str, text: str) -> str | None:
    """Return a message in the JSON of the conventions, or None if content is not sent."""
    if not text or settings.OTEL_CAPTURE_CONTENT not in _CONTENT:
        return None
    return to_json([{"role": role, "parts": [{"type": "text", "content": text}]}]).decode()


@dataclass(frozen=True, slots=True)
class Parent:
    """A request's span in a form for other processes: its trace headers and when it began."""

    headers: Mapping[str, str]
    began_ns: int


@dataclass(frozen=True, slots=True)
class OpenExchange:
    """The span of a request that has not ended yet."""

    span: "Span"
    began_ns: int

    @property
    def parent(self) -> Parent:
        from opentelemetry.trace import set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        headers: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(headers, set_span_in_context(self.span))
        return Parent(headers, self.began_ns)


def begin_exchange(headers: Mapping[str, str]) -> OpenExchange | None:
    """Begin the span of a request that has just arrived, or return None if telemetry is off."""
    on = get_telemetry()
    if on is None:
        return None
    from opentelemetry.trace import SpanKind

    began = time.time_ns()
    span = on.tracer.start_span("chat", context=read_parent(headers), kind=SpanKind.CLIENT, start_time=began)
    return OpenExchange(span, began)


@contextmanager
def inside(parent: Parent | None) -> Iterator[None]:
    """Make contexts that are logged in this block children of the request's span."""
    if parent is None:
        yield
        return
    from opentelemetry.context import attach, detach

    began = _began_at.set(parent.began_ns)
    trace = attach(read_parent(parent.headers))
    try:
        yield
    finally:
        detach(trace)
        _began_at.reset(began)


def end_exchange(opened: OpenExchange | None, exchange: ExchangeReport) -> None:
    """Complete the span of a request that has ended, and measure it."""
    on = get_telemetry()
    if opened is None or on is None:
        return
    from opentelemetry.trace import Status, StatusCode

    span = opened.span
    span.update_name(f"chat {exchange.model}".strip())
    span.set_attributes(dict(exchange.attributes()))
    if exchange.error:
        span.set_status(Status(StatusCode.ERROR))
    span.end(opened.began_ns + int(exchange.seconds * _SECOND))
    _measure(on, exchange)


def _measure(on: Telemetry, exchange: ExchangeReport) -> None:
    common = exchange.common()
    on.duration.record(exchange.seconds, common)
    if exchange.is_streamed and exchange.first_byte_seconds is not None:
        on.first_chunk.record(exchange.first_byte_seconds, common)
    for kind, tokens in (("input", exchange.input_tokens), ("output", exchange.output_tokens)):
        if tokens is not None:
            on.token_usage.record(tokens, {**common, USAGE_TYPE: kind})
    if exchange.added_seconds is not None:
        on.added.record(exchange.added_seconds, {MODE: exchange.mode, STATUS: exchange.status})


def record_assembly(*, attributes: Attributes, ms: float) -> None:
    """Record a context that was logged just now and took `ms` milliseconds.

    Its span is a child of the span of the request that it was assembled for, if there is one.
    """
    on = get_telemetry()
    if on is None:
        return
    began = _began_at.get()
    took = int(ms * 1_000_000)
    start = time.time_ns() - took if began is None else began
    span = on.tracer.start_span("assemble_context", start_time=start, attributes=attributes)
    span.end(start + took)
    on.assembly.record(ms / 1_000, {STAGE: attributes[STAGE]})


def read_parent(headers: Mapping[str, str]) -> "Context":
    """Return the trace that a caller's `traceparent` and `tracestate` name, or else the current one."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    given = {name.lower(): value for name, value in headers.items()}
    return TraceContextTextMapPropagator().extract(given)


class TraceMiddleware:
    """Makes the caller's span the parent of what is recorded during the request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        if not is_on():
            raise MiddlewareNotUsed
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if "traceparent" not in request.headers:
            return self.get_response(request)
        from opentelemetry import context

        token = context.attach(read_parent(request.headers))
        try:
            return self.get_response(request)
        finally:
            context.detach(token)


# Each process loads its models and tokenizers once. On a plain clock, the request that happens to load them
# would be logged as slow.
_loading_seconds = ContextVar("loading_seconds", default=0.0)


def work_seconds() -> float:
    """Return the time of a clock that stands still while a model or a tokenizer is loaded.

    Only differences within one thread have a meaning.
    """
    return time.perf_counter() - _loading_seconds.get()


@contextmanager
def loading() -> Iterator[None]:
    """Stop the clock, even if another thread is loading the same thing."""
    started = work_seconds()
    try:
        yield
    finally:
        _loading_seconds.set(_loading_seconds.get() + work_seconds() - started)
