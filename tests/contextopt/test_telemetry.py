import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import error_attributes, server_attributes
from opentelemetry.semconv.schemas import Schemas

from contextopt import telemetry
from contextopt.people.models import Scope
from contextopt.spaces.models import Space
from contextopt.telemetry import ExchangeReport, begin_exchange, end_exchange, inside
from tests import factories
from tests.collector import Collector, run_collector

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=1"}
CLIENT = 3


@pytest.fixture
def collector(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector, and the settings that make this process send to it."""
    with run_collector() as collector:
        settings.OTEL_EXPORTER_OTLP_ENDPOINT = collector.url
        # The library reads the environment itself.
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        telemetry.start.cache_clear()
        yield collector
        if telemetry.start.cache_info().currsize:
            telemetry.start().shutdown()
        telemetry.start.cache_clear()


def make_exchange(**changes: Any) -> ExchangeReport:
    fields: dict[str, Any] = {
        "provider": "openai", "url": "http://127.0.0.1:9001/v1", "team_id": 7,
        "seconds": 1.5, "mode": "insert", "status": "inserted", "http_status": 200, "model": "gpt-test",
        "answer_model": "gpt-test-2026", "answer_id": "chatcmpl-1", "space": "support", "is_streamed": True,
        "first_byte_seconds": 0.25, "added_seconds": 0.004, "input_tokens": 900, "output_tokens": 40,
        "question": "Where is the secret?", "answer": "In the vault.",
    }  # fmt: skip
    return ExchangeReport(**{**fields, **changes})


def send(*exchanges: ExchangeReport, headers: dict[str, str] | None = None) -> None:
    for exchange in exchanges:
        end_exchange(begin_exchange(headers or {}), exchange)
    flush()


def flush() -> None:
    on = telemetry.get_telemetry()
    assert on is not None
    on.flush()


def test_a_request_is_a_client_span_with_the_conventions_names(collector: Collector) -> None:
    send(make_exchange(), headers={"Traceparent": TRACEPARENT["traceparent"]})
    [span] = collector.spans
    assert (span.name, span.kind, span.service) == ("chat gpt-test", CLIENT, "contextopt")
    assert (span.trace_id, span.parent_id) == (TRACE, SPAN)
    assert span.schema_url == "https://opentelemetry.io/schemas/1.41.0"
    assert span.seconds == pytest.approx(1.5)
    assert not span.is_error
    assert span.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-test",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "gpt-test-2026",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.time_to_first_chunk": 0.25,
        "gen_ai.usage.input_tokens": 900,
        "gen_ai.usage.output_tokens": 40,
        "server.address": "127.0.0.1",
        "server.port": 9001,
        "contextopt.team.id": 7,
        "contextopt.space": "support",
        "contextopt.gateway.mode": "insert",
        "contextopt.gateway.status": "inserted",
        "contextopt.gateway.outcome": "answered",
        "contextopt.gateway.added": 0.004,
    }


def test_the_metrics_are_the_conventions(collector: Collector) -> None:
    send(make_exchange(), make_exchange(output_tokens=None))
    common = {
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-test",
        "gen_ai.response.model": "gpt-test-2026", "server.address": "127.0.0.1", "server.port": 9001,
    }  # fmt: skip
    assert sorted(collector.metrics["gen_ai.client.token.usage"], key=lambda point: point[1]) == [
        ({**common, "gen_ai.token.type": "output"}, 40.0, 1),
        ({**common, "gen_ai.token.type": "input"}, 1800.0, 2),
    ]
    assert collector.metrics["gen_ai.client.operation.duration"] == [(common, 3.0, 2)]
    assert collector.metrics["gen_ai.client.operation.time_to_first_chunk"] == [(common, 0.5, 2)]
    assert collector.metrics["contextopt.gateway.added"][0][1:] == (pytest.approx(0.008), 2)


def test_a_cached_count_that_was_not_reported_is_not_there(collector: Collector) -> None:
    send(make_exchange(), make_exchange(cached_tokens=0), make_exchange(cached_tokens=700))
    counts = [span.attributes.get("gen_ai.usage.cache_read.input_tokens") for span in collector.spans]
    assert counts == [None, 0, 700]


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"http_status": 429}, "429"),
        ({"http_status": None, "outcome": "unreachable"}, "unreachable"),
        ({"outcome": "broken"}, "broken"),
    ],
)
def test_a_failure_has_its_type(collector: Collector, changes: dict[str, Any], kind: str) -> None:
    send(make_exchange(**changes))
    [span] = collector.spans
    assert span.is_error
    assert span.attributes["error.type"] == kind


def test_a_client_that_left_is_no_failure(collector: Collector) -> None:
    send(make_exchange(outcome="abandoned", http_status=None))
    [span] = collector.spans
    assert not span.is_error
    assert "error.type" not in span.attributes
    assert span.attributes["contextopt.gateway.outcome"] == "abandoned"


@pytest.mark.parametrize("asked", ["", "false", "event_only", "no_content"])
def test_no_text_leaves_unless_it_is_asked_for(collector: Collector, settings: Any, asked: str) -> None:
    settings.OTEL_CAPTURE_CONTENT = asked
    send(make_exchange())
    assert "secret" not in str(collector.spans)
    assert "vault" not in str(collector.spans)


def test_texts_that_are_asked_for_have_the_conventions_form(collector: Collector, settings: Any) -> None:
    settings.OTEL_CAPTURE_CONTENT = "true"
    send(make_exchange(answer=""))
    [span] = collector.spans
    assert span.attributes["gen_ai.input.messages"] == (
        '[{"role":"user","parts":[{"type":"text","content":"Where is the secret?"}]}]'
    )
    assert "gen_ai.output.messages" not in span.attributes


@pytest.mark.django_db
def test_a_context_is_inside_the_request_it_was_assembled_for(collector: Collector, space: Space) -> None:
    factories.make_record(space)
    opened = begin_exchange(TRACEPARENT)
    assert opened is not None
    with inside(opened.parent):
        made = factories.make_assembly(space)
    end_exchange(opened, make_exchange())
    flush()
    [request], [assembly] = collector.named("chat"), collector.named("assemble_context")
    assert (assembly.trace_id, assembly.parent_id) == (TRACE, request.span_id)
    assert assembly.attributes["contextopt.assembly.id"] == made.id
    assert assembly.attributes["contextopt.space"] == "support"
    assert assembly.attributes["contextopt.records.included"] == 1
    assert assembly.attributes["contextopt.context.tokens"] == made.stats.tokens_used
    assert assembly.seconds == pytest.approx(made.assembly_ms / 1_000, abs=0.001)
    assert collector.metrics["contextopt.assembly.duration"][0][2] == 1


@pytest.mark.django_db
def test_a_context_asked_of_the_api_joins_the_callers_trace(collector: Collector, space: Space) -> None:
    factories.make_record(space)
    _, secret = factories.make_key(space.team, Scope.WRITE)
    response = Client().post(
        "/api/v1/assemblies",
        {"space": "support"},
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}", **TRACEPARENT},
    )
    assert response.status_code == 201
    flush()
    [span] = collector.spans
    assert (span.name, span.trace_id, span.parent_id) == ("assemble_context", TRACE, SPAN)


def test_a_malformed_trace_is_ignored(collector: Collector) -> None:
    send(make_exchange(), headers={"traceparent": "00-junk"})
    [span] = collector.spans
    assert span.parent_id == ""


@pytest.mark.django_db
def test_a_collector_that_is_away_breaks_no_request(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, space: Space
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    opened = begin_exchange({})
    assert opened is not None
    with inside(opened.parent):
        made = factories.make_assembly(space)
    end_exchange(opened, make_exchange())
    assert made.id
    flush()
    assert collector.spans == []


def test_without_an_endpoint_there_is_no_span(settings: Any) -> None:
    settings.OTEL_EXPORTER_OTLP_ENDPOINT = ""
    opened = begin_exchange(TRACEPARENT)
    assert opened is None
    with inside(opened):
        end_exchange(opened, make_exchange())


def test_nothing_is_imported_without_an_endpoint() -> None:
    script = (
        "import os, sys; os.environ.pop('OTEL_EXPORTER_OTLP_ENDPOINT', None);"
        "import django; os.environ['DJANGO_SETTINGS_MODULE'] = 'config.settings'; django.setup();"
        "import config.urls, contextopt.assemblies.assemble;"
        "from django.core.handlers.wsgi import WSGIHandler; WSGIHandler();"
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_names_are_those_of_the_pinned_package() -> None:
    known = {
        value
        for module in (gen_ai_attributes, gen_ai_metrics, error_attributes, server_attributes)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    ours = {value for name, value in vars(telemetry).items() if name.isupper() and isinstance(value, str)}
    used = {value for value in ours if value.startswith(("gen_ai.", "server.", "error."))}
    assert len(used) > 15
    assert used <= known
    assert telemetry.SCHEMA_URL in {schema.value for schema in Schemas}
