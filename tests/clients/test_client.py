"""Both clients against the running product, and their retries against a scripted server."""

import time
from collections.abc import Callable
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.people.models import ApiKey
from contextopt.spaces.models import Record, Space
from memory.feedback.models import Vote
from memory.memories.models import Memory
from tests.concurrency import in_own_loop

type Load = Callable[..., Any]


def run(
    load: Load, place: dict[str, Any], is_async: bool, method: str, /, *values: object, **options: object
) -> Any:
    """Call one method of the client, in threads or in asyncio."""
    if not is_async:
        with load().Contextopt(**place) as client:
            return getattr(client, method)(*values, **options)

    async def call() -> Any:
        async with load().AsyncContextopt(**place) as client:
            return await getattr(client, method)(*values, **options)

    return in_own_loop(call())


both = pytest.mark.parametrize("is_async", [False, True])


@both
def test_a_context_is_logged_and_read_again(
    is_async: bool, load: Load, place: dict[str, str], space: Space
) -> None:
    context = run(load, place, is_async, "assemble", space.slug, query="queue", conversation="c-1")
    assert "Queue stuck" in context["text"]
    assembly = Assembly.objects.get()
    assert (assembly.pk, assembly.conversation) == (context["id"], "c-1")
    assert run(load, place, is_async, "read_assembly", context["id"])["text"] == context["text"]
    assert run(load, place, is_async, "preview", space.slug)["id"] is None
    assert list(ApiKey.objects.get().ways) == ["python"]


@both
def test_every_method_reaches_the_product(
    is_async: bool, load: Load, place: dict[str, str], space: Space
) -> None:
    def call(method: str, /, *values: object, **options: object) -> Any:
        return run(load, place, is_async, method, *values, **options)

    assert call("read_key")["key"]["name"] == "client"
    assert call("create_space", "new", name="New")["slug"] == "new"
    assert call("create_record", "new", "A title", notes="x")["title"] == "A title"
    bulk = call("write_records", "new", [{"title": "B", "external_id": "b"}])
    assert (bulk["created"], Record.objects.count()) == (1, 3)
    assert call("search", "queue", space=space.slug)["results"]
    assert call("remember", "Prices are decimals", memory_type="decision")["id"] == Memory.objects.get().pk
    context = call("assemble", space.slug)
    call("give_feedback", "up", assembly_id=context["id"])
    assert Vote.objects.get().assembly_id == context["id"]
    assert call("filter_phase", "an unknown phase", {"tree": "a"})["warnings"]
    retry = call("plan_retry", {"root_cause": "bug"}, "t", {"a": "1"}, {"a": "2"})
    assert retry["action"] == "retry"
    assert call("ask_hint", "Fix the queue")["hint"] is None
    task_id = call("build_step", task="Fix the queue")["task_id"]
    found = call("add_finding", task_id, "risks", {"risk": "It waits."}, decision="open")
    assert call("resolve_finding", task_id, found["id"], "Free it")["decision"] == "resolved"
    assert call("compress_phase", task_id)["phase"] == "analysis"
    assert call("advance_phase", task_id)["phase"] == "design"
    assert call("read_task_status", task_id)["phase"] == "design"
    assert call("complete_task", task_id=task_id, outcome="impossible")["state"] == "impossible"


@pytest.mark.parametrize(
    ("name", "values", "options", "kind", "status"),
    [
        ("assemble", ("missing",), {}, "NotFound", 404),
        ("assemble", ("support",), {"context_tokens": -1}, "InvalidRequest", 422),
        ("create_space", ("support",), {}, "Conflict", 409),
    ],
)
def test_refusals_are_errors_of_their_kind(
    name: str,
    values: tuple[str, ...],
    options: dict[str, object],
    kind: str,
    status: int,
    load: Load,
    place: dict[str, str],
    space: Space,
) -> None:
    with pytest.raises(getattr(load(), kind)) as caught:
        run(load, place, False, name, *values, **options)
    assert caught.value.status == status
    assert str(status) in str(caught.value)
    assert list(caught.value.errors) == (["context_tokens"] if status == 422 else [])


def test_keys(load: Load, place: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(load().WrongKey):
        run(load, {**place, "key": "ctx_wrong"}, False, "read_key")
    monkeypatch.delenv("CONTEXTOPT_KEY", raising=False)
    with pytest.raises(load().ContextoptError, match="set CONTEXTOPT_KEY"):
        load().Contextopt(place["url"])
    monkeypatch.setenv("CONTEXTOPT_KEY", place["key"])
    monkeypatch.setenv("CONTEXTOPT_URL", place["url"])
    with load().Contextopt() as client:
        assert client.read_key()["key"]["name"] == "client"


REFUSED = {"title": "Busy", "detail": "later"}


@both
def test_a_write_is_tried_again_under_one_key(is_async: bool, load: Load, serve: Callable[..., Any]) -> None:
    script = serve((503, {}, REFUSED), (0, {}, b""), (201, {}, {"id": 7}))
    place = {"url": script.url, "key": "k"}
    assert run(load, place, is_async, "assemble", "support") == {"id": 7}
    keys = {asked["idempotency-key"] for asked in script.asked}
    assert (len(script.asked), len(keys)) == (3, 1)
    assert script.asked[0]["authorization"] == "Bearer k"


@both
def test_a_read_has_no_key(is_async: bool, load: Load, serve: Callable[..., Any]) -> None:
    script = serve((200, {}, {}))
    run(load, {"url": script.url, "key": "k"}, is_async, "search", "queue")
    assert "idempotency-key" not in script.asked[0]


@both
@pytest.mark.parametrize("as_date", [False, True])
def test_retry_after_is_honoured(
    as_date: bool, is_async: bool, load: Load, serve: Callable[..., Any]
) -> None:
    later = timezone.now() + timedelta(seconds=2)
    after = format_datetime(later, usegmt=True) if as_date else "1"
    script = serve((429, {"Retry-After": after}, REFUSED), (201, {}, {"id": 1}))
    began = time.monotonic()
    run(load, {"url": script.url, "key": "k"}, is_async, "assemble", "support")
    assert time.monotonic() - began >= 0.9


@both
def test_a_long_wait_is_an_error_that_names_it(is_async: bool, load: Load, serve: Callable[..., Any]) -> None:
    script = serve((429, {"Retry-After": "3600"}, REFUSED))
    with pytest.raises(load().TooManyRequests) as caught:
        run(load, {"url": script.url, "key": "k"}, is_async, "assemble", "support")
    assert caught.value.retry_after == 3600


def test_other_refusals_are_not_tried_again(load: Load, serve: Callable[..., Any]) -> None:
    script = serve((500, {}, b"<html>proxy</html>"))
    with pytest.raises(load().ServerError, match="proxy"):
        run(load, {"url": script.url, "key": "k"}, False, "assemble", "support")
    assert len(script.asked) == 1


@both
@pytest.mark.parametrize("errors", [["bad gateway"], None, "bad"])
def test_a_proxys_refusal_is_an_error_of_the_server(
    is_async: bool, load: Load, serve: Callable[..., Any], errors: object
) -> None:
    script = serve((502, {}, {"errors": errors}))
    with pytest.raises(load().ServerError) as caught:
        run(load, {"url": script.url, "key": "k", "retries": 0}, is_async, "assemble", "support")
    assert caught.value.errors == {}


@both
@pytest.mark.parametrize("headers", [{}, {"Content-Encoding": "gzip"}])
def test_a_page_of_a_proxy_is_no_answer(
    is_async: bool, load: Load, serve: Callable[..., Any], headers: dict[str, str]
) -> None:
    script = serve((200, headers, b"<html>Log in</html>"))
    with pytest.raises(load().NoAnswer, match="POST /api/v1/assemblies"):
        run(load, {"url": script.url, "key": "k", "retries": 0}, is_async, "assemble", "support")


@both
def test_no_answer_after_all_attempts(is_async: bool, load: Load) -> None:
    place = {"url": "http://127.0.0.1:9", "key": "k", "retries": 1}
    with pytest.raises(load().NoAnswer, match="POST /api/v1/assemblies"):
        run(load, place, is_async, "assemble", "support")
