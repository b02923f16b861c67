"""Spans of a real gateway process, as a real collector parses them."""

from collections.abc import Iterator

import pytest

from contextopt.models import GatewayPolicy, GatewayRequest
from tests.collector import Collector, SpanSeen, run_collector
from tests.concurrency import wait_until
from tests.contextopt.gateway.conftest import Caller, Process, gateway_process, make_caller
from tests.gateway_upstream import Upstream

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with run_collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def traced(
    django_db_setup: None,
    _upstream: Upstream,
    collector: Collector,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Process]:
    process = gateway_process(
        _upstream,
        tmp_path_factory.mktemp("traced"),
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_BSP_SCHEDULE_DELAY="100",
        OTEL_METRIC_EXPORT_INTERVAL="300",
        OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true",
    )
    process.start()
    yield process
    process.stop()


@pytest.fixture
def caller(transactional_db: None, traced: Process, collector: Collector) -> Caller:
    collector.spans.clear()
    return make_caller(traced)


def arrived(collector: Collector, number: int) -> list[SpanSeen]:
    wait_until(lambda: len(collector.spans) >= number)
    return collector.spans


def test_a_prompt_is_a_span_with_its_context_inside(
    caller: Caller, upstream: Upstream, collector: Collector
) -> None:
    headers = {"traceparent": TRACEPARENT, "tracestate": "vendor=1"}
    caller.chat("Why is the queue stuck?", **headers)
    arrived(collector, 2)
    [chat], [context] = collector.named("chat"), collector.named("assemble_context")
    [row] = caller.logged()
    assert (chat.name, chat.trace_id, chat.parent_id) == ("chat m", TRACE, SPAN)
    assert (context.trace_id, context.parent_id) == (TRACE, chat.span_id)
    assert context.attributes["contextopt.assembly.id"] == row.assembly_id
    assert chat.attributes["gen_ai.response.id"] == row.answer_id != ""
    assert chat.attributes["gen_ai.usage.input_tokens"] == row.input_tokens
    assert chat.attributes["server.port"] == int(upstream.base_url.rpartition(":")[2])
    assert chat.attributes["contextopt.gateway.status"] == "audit"
    assert "gen_ai.input.messages" not in chat.attributes
    sent = upstream.got[-1].headers
    assert (sent["traceparent"], sent["tracestate"]) == (TRACEPARENT, "vendor=1")
    wait_until(lambda: "gen_ai.client.token.usage" in collector.metrics)


def test_an_inserted_context_is_inside_too(caller: Caller, upstream: Upstream, collector: Collector) -> None:
    GatewayPolicy.objects.create(space=caller.space, mode="insert", keep="all")
    caller.chat("Why is the queue stuck?", traceparent=TRACEPARENT)
    arrived(collector, 2)
    # A prompt whose context took too long was sent again.
    [*_, chat], [context] = collector.named("chat"), collector.named("assemble_context")
    assert context.parent_id == chat.span_id
    assert chat.attributes["contextopt.gateway.status"] == "inserted"
    assert "Why is the queue stuck?" in chat.attributes["gen_ai.input.messages"]
    assert "gen_ai.output.messages" in chat.attributes


@pytest.mark.parametrize(
    ("path", "request_body", "start"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Why?"}]}, "chatcmpl"),
        ("/v1/responses", {"input": "Why?"}, "resp"),
        ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "Why?"}]}, "msg"),
    ],
)
@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_providers_id_of_the_answer_is_kept(
    caller: Caller,
    upstream: Upstream,
    path: str,
    request_body: dict[str, object],
    start: str,
    *,
    is_streamed: bool,
) -> None:
    caller.post(path, {"model": "m", "stream": is_streamed, **request_body})
    [row] = caller.logged()
    assert row.answer_id.startswith(start)
    assert GatewayRequest.objects.get(answer_id=row.answer_id).pk == row.pk
