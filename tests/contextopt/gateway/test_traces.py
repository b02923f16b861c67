"""Spans of a real gateway process, as a real collector parses them."""

from collections.abc import Iterator

import pytest

from contextopt.gateway.models import GatewayPolicy, GatewayRequest
from tests.collector import Collector, SpanSeen, run_collector
from tests.concurrency import wait_until
from tests.contextopt.gateway.conftest import Caller, Process, gateway_process, make_caller
from tests.gateway_upstream import Upstream

TRACE, OTHER_TRACE, SPAN = (
    "4bf92f3577b34da6a3ce929d0e0e4736", "4bf92f3577b34da6a3ce929d0e0e4737", "00f067aa0ba902b7",
)  # fmt: skip


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
    return make_caller(traced)


def spans_of(collector: Collector, trace: str) -> tuple[SpanSeen, SpanSeen]:
    """Wait for a context's span of this trace and its parent, the prompt's span; return the prompt's first.

    Spans of earlier tests may come late.
    """

    def found() -> list[tuple[SpanSeen, SpanSeen]]:
        return [
            (chat, context)
            for context in collector.named("assemble_context")
            for chat in collector.named("chat")
            if context.trace_id == trace and context.parent_id == chat.span_id
        ]

    wait_until(lambda: bool(found()))
    [pair] = found()
    return pair


def test_a_prompt_is_a_span_with_its_context_inside(
    caller: Caller, upstream: Upstream, collector: Collector
) -> None:
    traceparent = f"00-{TRACE}-{SPAN}-01"
    caller.chat("Why is the queue stuck?", traceparent=traceparent, tracestate="vendor=1")
    chat, context = spans_of(collector, TRACE)
    [row] = caller.logged()
    assert (chat.name, chat.trace_id, chat.parent_id) == ("chat m", TRACE, SPAN)
    assert context.trace_id == TRACE
    assert context.attributes["contextopt.assembly.id"] == row.assembly_id
    assert chat.attributes["gen_ai.response.id"] == row.answer_id != ""
    assert chat.attributes["gen_ai.usage.input_tokens"] == row.input_tokens
    assert chat.attributes["server.port"] == int(upstream.base_url.rpartition(":")[2])
    assert chat.attributes["contextopt.gateway.status"] == "audit"
    assert "gen_ai.input.messages" not in chat.attributes
    sent = upstream.got[-1].headers
    assert (sent["traceparent"], sent["tracestate"]) == (traceparent, "vendor=1")
    wait_until(lambda: "gen_ai.client.token.usage" in collector.metrics)


def test_an_inserted_context_is_inside_too(caller: Caller, upstream: Upstream, collector: Collector) -> None:
    GatewayPolicy.objects.create(space=caller.space, mode="insert", keep="all")
    caller.chat("Why is the queue stuck?", traceparent=f"00-{OTHER_TRACE}-{SPAN}-01")
    chat, _ = spans_of(collector, OTHER_TRACE)
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
