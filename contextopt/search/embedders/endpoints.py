"""Embeddings from any OpenAI-compatible endpoint."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import batched
from time import monotonic, sleep

import numpy as np
import openai
import structlog

from contextopt.retryafter import read_retry_after
from contextopt.search.embedders.values import Embedder, EmbeddingUnavailable, Vectors, to_unit

log = structlog.get_logger(__name__)

ATTEMPTS = 3
# Retry a batch for this many seconds. A single text is a question someone waits for, so it is tried once.
PATIENCE_SECONDS = 20.0
FIRST_WAIT_SECONDS = 0.5
# Such endpoints accept about 8,000 tokens per text. Code and other scripts take more tokens per character, so
# the safe length is shorter.
TEXT_MAX = 8_000
TEXT_SAFE = 2_000
# Statuses with which an endpoint rejects the texts themselves.
REFUSED = (openai.BadRequestError, openai.UnprocessableEntityError)
# Too many requests, or too slow: both are temporary.
PASSING_STATUS = (408, 409, 429)


class _Passing(Exception):
    """A failure that may not occur on a later attempt."""

    def __init__(self, what: str, wait_seconds: float | None = None) -> None:
        super().__init__(what)
        self.wait_seconds = wait_seconds


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address and options of an endpoint. `timeout_seconds` is per request. `repr` leaves the key out."""

    base_url: str
    api_key: str
    model: str
    dimensions: int
    batch: int
    timeout_seconds: float

    def __repr__(self) -> str:
        return f"Endpoint({self.base_url}, {self.model}:{self.dimensions})"


class EndpointEmbedder(Embedder):
    """Embeds over HTTP. Retries temporary failures and respects `Retry-After`."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.name = f"endpoint:{endpoint.model}:{endpoint.dimensions}"
        self.dimensions = endpoint.dimensions
        self._endpoint = endpoint
        self._client = openai.OpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key or "none",
            timeout=endpoint.timeout_seconds,
            max_retries=0,
        )

    def embed(self, texts: Sequence[str]) -> Vectors:
        filled = [place for place, text in enumerate(texts) if text.strip()]
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for places in batched(filled, self._endpoint.batch):
            rows[list(places)] = self._embed([texts[place][:TEXT_MAX] for place in places])
        return to_unit(rows)

    def _embed(self, texts: list[str]) -> Vectors:
        """Embed the accepted texts. A text that is rejected on its own becomes a row of zeros."""
        try:
            return self._ask(texts)
        except REFUSED as error:
            if len(texts) > 1:
                half = len(texts) // 2
                return np.concatenate([self._embed(texts[:half]), self._embed(texts[half:])])
            return self._embed_refused(texts[0], error)

    def _embed_refused(self, text: str, error: openai.APIStatusError) -> Vectors:
        """Try the start of the text. If even a plain word is rejected, the text is not the cause."""
        try:
            if len(text) > TEXT_SAFE:
                return self._embed([text[:TEXT_SAFE]])
            self._ask(["word"])
        except REFUSED:
            raise self._unavailable(f"responded with status {error.status_code}") from None
        log.warning("text_refused", model=self.name, status=error.status_code, characters=len(text))
        return np.zeros((1, self.dimensions), np.float32)

    def _ask(self, texts: list[str]) -> Vectors:
        started = monotonic()
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._ask_once(texts)
            except _Passing as error:
                wait = error.wait_seconds or FIRST_WAIT_SECONDS * 2 ** (attempt - 1)
                is_late = monotonic() - started + wait > PATIENCE_SECONDS
                if len(texts) == 1 or attempt == ATTEMPTS or is_late:
                    raise self._unavailable(str(error)) from None
                sleep(wait)
        raise AssertionError("unreachable")

    def _ask_once(self, texts: list[str]) -> Vectors:
        try:
            answer = self._client.embeddings.create(
                model=self._endpoint.model, input=texts, encoding_format="float"
            )
        except REFUSED:
            raise
        except openai.APITimeoutError:
            raise _Passing(f"took more than {self._endpoint.timeout_seconds:g} s") from None
        except openai.APIConnectionError:
            raise _Passing("cannot be reached") from None
        except openai.APIStatusError as error:
            what = f"responded with status {error.status_code}"
            if error.status_code in PASSING_STATUS or error.status_code >= 500:
                raise _Passing(what, read_retry_after(error.response.headers.get("retry-after"))) from None
            raise self._unavailable(what) from None
        # A response that is not JSON, or not of the expected form, raises a ValueError in the parser.
        except (openai.OpenAIError, ValueError) as error:
            raise self._unavailable(f"sent an unreadable response ({type(error).__name__})") from None
        return self._rows(answer, len(texts))

    def _rows(self, answer: object, count: int) -> Vectors:
        """Check the response: one vector per text, in the stated order, each of the right length."""
        try:
            items = sorted(answer.data, key=lambda item: item.index)  # type: ignore[attr-defined]
            rows = [np.asarray(item.embedding, dtype=np.float32) for item in items]
            numbers = [item.index for item in items]
        except (AttributeError, TypeError, ValueError):
            raise self._unavailable("did not return a list of vectors") from None
        if numbers != list(range(count)):
            raise self._unavailable(f"returned {len(rows)} vectors for {count} texts")
        lengths = {row.size for row in rows}
        if lengths != {self.dimensions}:
            found = ", ".join(str(length) for length in sorted(lengths))
            raise self._unavailable(
                f"returns vectors with {found} dimensions; set EMBEDDING_DIMENSIONS to {found}"
            )
        return np.stack(rows)

    def _unavailable(self, what: str) -> EmbeddingUnavailable:
        return EmbeddingUnavailable(f"the embeddings endpoint for {self._endpoint.model} {what}")
