"""Gets answers from a language model, at any endpoint with the OpenAI chat protocol.

The endpoint is optional: without `LLM_BASE_URL`, messages are stored and not answered.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from socket import SHUT_RDWR
from threading import Timer
from typing import TYPE_CHECKING, Annotated, Any, Literal

from django.conf import settings
from pydantic import BaseModel, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from contextopt.errors import ServiceUnavailable
from contextopt.inputs import INT_MAX, make_storable
from contextopt.retryafter import read_retry_after

if TYPE_CHECKING:
    import httpx2

EVENT_STREAM = "text/event-stream"
STREAM_MAX_CHARS = 200_000


class _Delta(BaseModel):
    content: str | None = None


class _StreamedChoice(BaseModel):
    delta: _Delta = Field(default_factory=_Delta)
    finish_reason: str | None = None


class _Piece(BaseModel):
    """The fields that are read of a piece. The client builds its own types without checking them."""

    choices: list[_StreamedChoice] = Field(default_factory=list)
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


# Import the library only to ask an endpoint. It takes a fifth of a process's start time, and a site that was
# killed has to come back fast.
if TYPE_CHECKING:
    import openai
    from openai.resources.chat.completions import CompletionsWithStreamingResponse

type Role = Literal["system", "user", "assistant"]

CONNECT_SECONDS = 5
ANSWER_MAX_CHARS = 200_000
_RETRYABLE = frozenset({408, 409, 425, 429})


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a prompt."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer. Token counts are the endpoint's own, or None if it sends none."""

    text: str
    model: str
    prompt_tokens: int | None
    completion_tokens: int | None
    duration_ms: float
    cached_tokens: int | None = None


class CompletionUnavailable(ServiceUnavailable):
    """The endpoint is down, slow or busy. The same request may succeed later.

    `retry_after_seconds` is the wait that the endpoint asked for, if any.
    """

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class CompletionRefused(ServiceUnavailable):
    """The endpoint refuses this request, and would again: wrong key, model or content."""


def is_configured() -> bool:
    return bool(settings.LLM_BASE_URL)


def complete(
    messages: Sequence[ChatMessage],
    *,
    timeout_seconds: float,
    idempotency_key: str,
    model: str = "",
    temperature: float | None = None,
    on_text: Callable[[str], None] | None = None,
) -> Completion:
    """Ask the endpoint once. Callers repeat it themselves, with the same idempotency key.

    With `on_text` the answer is streamed, and each call gets all of its text so far. An endpoint that does
    not stream answers at once.

    Raises:
        CompletionUnavailable: not configured, unreachable, too slow, too busy, or no valid answer.
        CompletionRefused: the endpoint refused the request itself.
    """
    if not is_configured():
        raise CompletionUnavailable("no model endpoint is configured; set LLM_BASE_URL")
    asked: dict[str, Any] = {
        "model": model or settings.LLM_MODEL,
        "messages": [asdict(message) for message in messages],
        "extra_headers": {"Idempotency-Key": idempotency_key},
        **({} if temperature is None else {"temperature": temperature}),
    }
    if on_text:
        asked |= {"stream": True, "stream_options": {"include_usage": True}}
    started = time.perf_counter()
    with _plain_errors(timeout_seconds), _completions(timeout_seconds).create(**asked) as received:
        answer = read_answer(received, on_text or (lambda _: None), deadline=started + timeout_seconds)
    return _read(answer, (time.perf_counter() - started) * 1_000)


def _completions(timeout_seconds: float) -> "CompletionsWithStreamingResponse":
    """Return the client's resource, whose answers are not read yet."""
    import openai

    client = _client(settings.LLM_BASE_URL, settings.LLM_API_KEY)
    timeout = openai.Timeout(timeout_seconds, connect=min(CONNECT_SECONDS, timeout_seconds))
    return client.with_options(timeout=timeout).chat.completions.with_streaming_response


@contextmanager
def _plain_errors(timeout_seconds: float) -> Iterator[None]:
    """Turn the client's errors into ours."""
    import httpx2
    import openai

    try:
        yield
    except (openai.APITimeoutError, httpx2.TimeoutException, TimeoutError):
        raise CompletionUnavailable(
            f"the model endpoint did not respond within {timeout_seconds:g} s"
        ) from None
    except (openai.APIConnectionError, httpx2.TransportError):
        raise CompletionUnavailable("the model endpoint cannot be reached") from None
    except openai.APIStatusError as error:
        raise _status_error(error) from None
    except (openai.APIError, ValueError):
        raise CompletionUnavailable("the model endpoint's response is not a chat completion") from None


@cache
def _client(base_url: str, api_key: str) -> "openai.OpenAI":
    import openai

    # Self-hosted endpoints often need no key, but the client always requires one.
    return openai.OpenAI(base_url=base_url, api_key=api_key or "none", max_retries=0)


def _status_error(error: "openai.APIStatusError") -> ServiceUnavailable:
    """Tell temporary errors from permanent ones. Leave out the error's text, which may quote the prompt."""
    status = error.status_code
    if status in _RETRYABLE or status >= 500:
        wait = read_retry_after(error.response.headers.get("retry-after"))
        return CompletionUnavailable(f"the model endpoint answered {status}", wait)
    return CompletionRefused(f"the model endpoint refused the request with status {status}")


class _Said(BaseModel):
    content: str


class _Choice(BaseModel):
    message: _Said


def _none_if_invalid(value: object, validate: ValidatorFunctionWrapHandler) -> Any:
    """Return None for invalid counts, since counts are only informative."""
    try:
        return validate(value)
    except ValidationError:
        return None


type _Count = Annotated[Annotated[int, Field(ge=0, le=INT_MAX)] | None, WrapValidator(_none_if_invalid)]


class _PromptDetails(BaseModel):
    cached_tokens: _Count = None


class _Usage(BaseModel):
    prompt_tokens: _Count = None
    completion_tokens: _Count = None
    prompt_tokens_details: Annotated[_PromptDetails | None, WrapValidator(_none_if_invalid)] = None

    @property
    def cached_tokens(self) -> int | None:
        """The part of the prompt that was cached. More than the prompt is no count."""
        cached = self.prompt_tokens_details.cached_tokens if self.prompt_tokens_details else None
        is_wrong = cached is not None and self.prompt_tokens is not None and cached > self.prompt_tokens
        return None if is_wrong else cached


class _Answer(BaseModel):
    """The fields an answer must have. The client builds its own types without checking them."""

    choices: list[_Choice] = Field(min_length=1)
    model: str | None = None
    usage: _Usage | None = None


def _read(answer: object, duration_ms: float) -> Completion:
    """Read an answer, whose shape the client has not checked."""
    try:
        read = _Answer.model_validate(answer, from_attributes=True)
    except ValidationError:
        raise CompletionUnavailable("the model endpoint's response is not a chat completion") from None
    text = make_storable(read.choices[0].message.content)
    if not text.strip():
        raise CompletionUnavailable("the model endpoint's response has no text")
    usage = read.usage or _Usage()
    return Completion(
        text=text[:ANSWER_MAX_CHARS],
        model=make_storable(read.model or "") or settings.LLM_MODEL,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        duration_ms=duration_ms,
        cached_tokens=usage.cached_tokens,
    )
