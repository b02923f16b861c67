"""Spans and metrics of prompts that pass through the gateway, and of the contexts assembled for them."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from pydantic_core import to_json

from contextopt.telemetry import names
from contextopt.telemetry.exporter import Attributes, Telemetry, is_on, telemetry

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

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
            names.OPERATION: "chat",
            names.PROVIDER: self.provider,
            names.REQUEST_MODEL: self.model,
            names.RESPONSE_MODEL: self.answer_model,
            names.SERVER_ADDRESS: address.hostname,
            names.SERVER_PORT: port,
            names.ERROR_TYPE: self.error,
        }
        return {name: value for name, value in known.items() if value}

    def attributes(self) -> Attributes:
        known = {
            names.TEAM_ID: self.team_id,
            names.SPACE: self.space or None,
            names.MODE: self.mode,
            names.STATUS: self.status,
            names.REASON: self.reason or None,
            names.OUTCOME: self.outcome,
            names.ADDED_SECONDS: self.added_seconds,
            names.REQUEST_STREAM: self.is_streamed,
            names.RESPONSE_ID: self.answer_id or None,
            names.CONVERSATION: self.conversation or None,
            names.FIRST_CHUNK: self.first_byte_seconds if self.is_streamed else None,
            names.INPUT_TOKENS: self.input_tokens,
            names.OUTPUT_TOKENS: self.output_tokens,
            names.CACHE_READ_TOKENS: self.cached_tokens,
            names.CACHE_WRITE_TOKENS: self.written_tokens,
            names.INPUT_MESSAGES: _message("user", self.question),
            names.OUTPUT_MESSAGES: _message("assistant", self.answer),
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
    on = telemetry()
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
    on = telemetry()
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
            on.token_usage.record(tokens, {**common, names.USAGE_TYPE: kind})
    if exchange.added_seconds is not None:
        on.added.record(exchange.added_seconds, {names.MODE: exchange.mode, names.STATUS: exchange.status})


def record_assembly(*, attributes: Attributes, ms: float) -> None:
    """Record a context that was logged just now and took `ms` milliseconds.

    Its span is a child of the span of the request that it was assembled for, if there is one.
    """
    on = telemetry()
    if on is None:
        return
    began = _began_at.get()
    took = int(ms * 1_000_000)
    start = time.time_ns() - took if began is None else began
    span = on.tracer.start_span("assemble_context", start_time=start, attributes=attributes)
    span.end(start + took)
    on.assembly.record(ms / 1_000, {names.STAGE: attributes[names.STAGE]})


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
