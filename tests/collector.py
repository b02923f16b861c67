"""A local collector of OpenTelemetry that parses the protobuf it is sent."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

FAILED = 2


@dataclass(frozen=True, slots=True)
class SpanSeen:
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    seconds: float
    is_error: bool
    attributes: dict[str, Any]
    schema_url: str
    service: str


@dataclass
class Collector:
    """The spans and metrics received. `metrics` maps names to the attributes and sums of their points."""

    url: str
    spans: list[SpanSeen] = field(default_factory=list)
    metrics: dict[str, list[tuple[dict[str, Any], float, int]]] = field(default_factory=dict)
    headers: list[dict[str, str]] = field(default_factory=list)

    def named(self, start: str) -> list[SpanSeen]:
        return [span for span in self.spans if span.name.startswith(start)]

    def take_traces(self, body: bytes) -> bytes:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = read_attributes(resource.resource.attributes)["service.name"]
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self.spans.append(read_span(span, scope.schema_url, service))
        return ExportTraceServiceResponse().SerializeToString()

    def take_metrics(self, body: bytes) -> bytes:
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    self.metrics[metric.name] = [
                        (read_attributes(point.attributes), point.sum, point.count)
                        for point in metric.histogram.data_points
                    ]
        return ExportMetricsServiceResponse().SerializeToString()


def read_span(span: Any, schema_url: str, service: str) -> SpanSeen:
    return SpanSeen(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        kind=span.kind,
        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
        is_error=span.status.code == FAILED,
        attributes=read_attributes(span.attributes),
        schema_url=schema_url,
        service=service,
    )


def read_attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs if isinstance(pair, KeyValue)}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def run_collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.headers.append({name.lower(): value for name, value in self.headers.items()})
            take = {"/v1/traces": collector.take_traces, "/v1/metrics": collector.take_metrics}[self.path]
            answer = take(body)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
