"""Reads an answer that arrives piece by piece."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from socket import SHUT_RDWR
from threading import Timer
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field, ValidationError

if TYPE_CHECKING:
    import httpx2

EVENT_STREAM = "text/event-stream"
STREAM_MAX_CHARS = 200_000


class _Delta(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    delta: _Delta = Field(default_factory=_Delta)
    finish_reason: str | None = None


class _Piece(BaseModel):
    """The fields that are read of a piece. The client builds its own types without checking them."""

    choices: list[_Choice] = Field(default_factory=list)
    model: str | None = None
    usage: Any = None


def read_answer(received: Any, on_text: Callable[[str], None], *, deadline: float) -> Any:
    """Read a client's response to its end; return a stream in the shape of an answer that came at once.

    `deadline` is a moment of `time.perf_counter`.

    Raises:
        TimeoutError: the deadline passed before the end.
        ValueError: it is neither a stream of pieces nor an answer, or it ended before the answer did.
    """
    with _cut_off_at(deadline, received.http_response):
        if not received.headers.get("content-type", "").startswith(EVENT_STREAM):
            return json.loads(received.http_response.read())
        text, model, usage, is_finished = "", None, None, False
        for piece in _pieces(received):
            model, usage = model or piece.model, piece.usage or usage
            for choice in piece.choices[:1]:
                text += choice.delta.content or ""
                is_finished = is_finished or choice.finish_reason is not None
            if len(text) > STREAM_MAX_CHARS:
                is_finished = True
                break
            on_text(text)
        if not is_finished:
            raise ValueError("the stream ended before the answer did")
    return {"choices": [{"message": {"content": text}}], "model": model, "usage": usage}


@contextmanager
def _cut_off_at(deadline: float, response: "httpx2.Response") -> Iterator[None]:
    """Close the connection at the deadline. The client's own limit starts anew with each read."""
    import httpx2

    connection = response.extensions["network_stream"].get_extra_info("socket")
    timer = Timer(max(deadline - time.perf_counter(), 0), connection.shutdown, [SHUT_RDWR])
    timer.daemon = True
    timer.start()
    try:
        yield
    except (httpx2.TransportError, ValueError):
        if time.perf_counter() >= deadline:
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()


def _pieces(received: Any) -> Iterator[_Piece]:
    for piece in received.parse():
        try:
            yield _Piece.model_validate(piece, from_attributes=True)
        except ValidationError as error:
            raise ValueError("a piece of the stream is not one of a chat completion") from error
