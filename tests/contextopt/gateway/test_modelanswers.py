"""Answers are read for the provider's usage, and for the text where it is kept."""

import gzip
import random
import zlib
from collections.abc import Callable

import brotlicffi
import pytest

from contextopt.gateway.modelanswers import DECODED_MAX, HEAD_BYTES, Answer, Usage, read_answer, zstd
from tests.gateway_upstream import (
    chat_answer,
    chat_events,
    event,
    messages_answer,
    messages_events,
    responses_answer,
    responses_events,
    whole,
)
from tests.speed import within

TEXT = "Restart the worker."
EXPECTED = {
    "chat": Usage(40, 16, None, 9),
    "responses": Usage(50, 0, None, 7),
    "messages": Usage(47, 30, 5, 7),
}
ANSWERS = {
    "chat": (chat_answer(TEXT), chat_events(TEXT)),
    "responses": (responses_answer(TEXT), responses_events(TEXT)),
    "messages": (messages_answer(TEXT), messages_events(TEXT)),
}
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, "gzip": gzip.compress, "deflate": zlib.compress, "br": brotlicffi.compress,
    "zstd": zstd.compress,
}  # fmt: skip


@pytest.mark.parametrize("encoding", PACKERS)
@pytest.mark.parametrize("protocol", ANSWERS)
def test_whole_and_streamed(protocol: str, encoding: str) -> None:
    pack = PACKERS[encoding]
    one, events = ANSWERS[protocol]
    for body, is_stream in ((whole(one).content, False), (b"".join(events), True)):
        for wants_text in (True, False):
            answer = read_answer(protocol, pack(body), encoding, is_stream=is_stream, wants_text=wants_text)
            assert answer.is_ended is is_stream
            assert answer.usage == EXPECTED[protocol]
            assert answer.text.replace(" ", "") == (TEXT.replace(" ", "") if wants_text else "")


@pytest.mark.parametrize(
    ("protocol", "failure"),
    [
        ("chat", {"error": {"message": "Overloaded"}}),
        ("chat", {"choices": [{"delta": {}, "finish_reason": "error"}], "error": {"code": 502}}),
        ("responses", {"type": "error", "code": "server_error", "message": "Overloaded"}),
        ("responses", {"type": "response.failed", "response": {"error": {"code": "server_error"}}}),
        ("messages", {"type": "error", "error": {"type": "overloaded_error"}}),
    ],
)
def test_failures_in_a_stream(protocol: str, failure: dict[str, object]) -> None:
    for wants_text in (True, False):
        for events, is_failed in ((ANSWERS[protocol][1], False), ([event(failure)], True)):
            body = b"".join([*ANSWERS[protocol][1][:3], *events])
            answer = read_answer(protocol, body, "", is_stream=True, wants_text=wants_text)
            assert answer.is_failed is is_failed


@pytest.mark.parametrize("protocol", ANSWERS)
def test_a_stream_without_its_last_event_has_not_ended(protocol: str) -> None:
    events = ANSWERS[protocol][1]
    for body in (
        b"",
        b"".join(events[:-1]),
        b"".join(events)[:-6],
        b"data: [1]\n\n",
        b'data: {"type": []}\n\n',
    ):
        assert not read_answer(protocol, body, "", is_stream=True, wants_text=False).is_ended


@pytest.mark.parametrize("protocol", ANSWERS)
@pytest.mark.parametrize("rest", [b"", b"\0" * 8, b"no gzip"])
def test_gzip_in_several_members(protocol: str, rest: bytes) -> None:
    """As a server sends it that packs each event by itself. Bytes behind the last member do no harm."""
    body = b"".join(map(gzip.compress, ANSWERS[protocol][1])) + rest
    answer = read_answer(protocol, body, "gzip", is_stream=True, wants_text=True)
    assert answer.usage == EXPECTED[protocol]
    assert answer.text.replace(" ", "") == TEXT.replace(" ", "")


def test_unpacking_gzip_is_bounded() -> None:
    bomb = gzip.compress(bytes(DECODED_MAX // 4)) * 50
    members = gzip.compress(b"") * (HEAD_BYTES // 20)
    with within(2):
        for body in (bomb, members):
            assert read_answer("chat", body, "gzip", is_stream=True, wants_text=True) == Answer()


def test_line_breaks_of_every_kind() -> None:
    body = b"".join(chat_events(TEXT)).replace(b"\n", b"\r\n")
    answer = read_answer("chat", body, "", is_stream=True, wants_text=True)
    assert (answer.usage, answer.text) == (EXPECTED["chat"], TEXT)


def test_no_report_is_not_zero() -> None:
    body = b"".join(chat_events(TEXT, has_usage=False))
    assert read_answer("chat", body, "", is_stream=True, wants_text=False).usage == Usage()


@pytest.mark.parametrize("protocol", ANSWERS)
def test_cut_and_broken_answers(protocol: str) -> None:
    """No bytes whatever raise, and an answer that broke off still tells what it told."""
    body = b"".join(ANSWERS[protocol][1])
    rng = random.Random(1)
    for _ in range(50):
        cut = body[: rng.randrange(len(body))]
        torn = bytes(rng.randrange(256) if rng.random() < 0.05 else byte for byte in cut)
        for encoding in ("", "gzip", "br", "zstd"):
            read_answer(protocol, torn, encoding, is_stream=True, wants_text=True)
            read_answer(protocol, torn, encoding, is_stream=False, wants_text=True)
    begun = read_answer("messages", messages_events()[0], "", is_stream=True, wants_text=False).usage
    assert begun == Usage(47, 30, 5, 1)


@pytest.mark.parametrize("odd", [["text"], {"text": 1}, 1, None])
def test_types_that_are_no_texts(odd: object) -> None:
    body = whole({"type": "message", "content": [{"type": odd, "text": "a"}, {"type": "text", "text": "b"}]})
    assert read_answer("messages", body.content, "", is_stream=False, wants_text=True).text == "b"


@pytest.mark.parametrize("count", [-1, True, 1.5, "7", None, 2**60])
def test_wrong_counts_are_left_out(count: object) -> None:
    body = whole({"usage": {"prompt_tokens": count, "completion_tokens": 3}}).content
    assert read_answer("chat", body, "", is_stream=False, wants_text=False).usage == Usage(output=3)


@pytest.mark.parametrize(
    ("protocol", "usage"),
    [
        (
            "chat",
            {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 8}},
        ),
        ("chat", {"prompt_tokens": 7, "prompt_cache_hit_tokens": 8}),
        ("responses", {"input_tokens": 7, "input_tokens_details": {"cached_tokens": 8}}),
    ],
)
def test_more_cached_tokens_than_the_prompt_has_are_left_out(protocol: str, usage: object) -> None:
    body = whole({"usage": usage}).content
    assert read_answer(protocol, body, "", is_stream=False, wants_text=False).usage == Usage(input=7)
