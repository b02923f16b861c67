"""The steps of one call with its retries, without any I/O. Both clients follow them."""

import random
import uuid
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from contextopt_client.errors import ApiError, NoAnswer, kind_of

RETRIED = frozenset({408, 429, 502, 503, 504})
FIRST_WAIT_SECONDS = 0.25
# A longer Retry-After is not waited for: the call fails, and `retry_after` of the error has the seconds.
WAIT_SECONDS_MAX = 30.0


@dataclass(frozen=True)
class Call:
    """A call of the API. A write gets an Idempotency-Key, so that repeating it does nothing twice."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    is_write: bool = False


@dataclass(frozen=True)
class Wait:
    seconds: float


Step = Call | Wait
Outcome = httpx2.Response | httpx2.RequestError | None


def headers_of(call: Call) -> dict[str, str]:
    return {"Idempotency-Key": uuid.uuid4().hex} if call.is_write else {}


def follow(call: Call, retries: int) -> Generator[Step, Outcome, Any]:
    """Yield the call for each attempt, and the waits between them; return the answer.

    The client sends back the outcome of each attempt: a response or the error of its connection.

    Raises:
        ApiError: the API refused the call.
        NoAnswer: no attempt got a usable answer.
    """
    for attempt in range(retries + 1):
        outcome = yield call
        if isinstance(outcome, httpx2.Response):
            if outcome.is_success:
                return read_answer(call, outcome)
            error = read_error(outcome)
            wait = error.retry_after if error.retry_after is not None else backoff(attempt)
            if outcome.status_code not in RETRIED or attempt == retries or wait > WAIT_SECONDS_MAX:
                raise error
            yield Wait(wait)
        else:
            if attempt == retries:
                raise NoAnswer(f"{call.method} {call.path}: {outcome}") from outcome
            yield Wait(backoff(attempt))
    raise AssertionError("unreachable")


def backoff(attempt: int) -> float:
    """Return the seconds to wait after attempt 0, 1, …: doubled each time, less up to half at random."""
    return float(FIRST_WAIT_SECONDS * 2**attempt * random.uniform(0.5, 1))  # noqa: S311


def read_answer(call: Call, response: httpx2.Response) -> Any:
    """Return the answer's JSON.

    Raises:
        NoAnswer: the body is not JSON, such as the login page of a proxy.
    """
    if not response.content:
        return None
    try:
        return response.json()
    except ValueError as error:
        raise NoAnswer(f"{call.method} {call.path}: the answer is not JSON") from error


def read_error(response: httpx2.Response) -> ApiError:
    """Return the error for a refusal. The body may not be problem details, if it comes from a proxy."""
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    if not isinstance(problem, dict):
        problem = {}
    errors = problem.get("errors")
    fields = [each for each in errors if isinstance(each, dict)] if isinstance(errors, list) else []
    return kind_of(response.status_code)(
        status=response.status_code,
        title=str(problem.get("title") or response.reason_phrase),
        detail=str(problem.get("detail") or response.text[:200]),
        errors={str(each.get("field")): str(each.get("message")) for each in fields},
        retry_after=read_retry_after(response.headers.get("Retry-After", "")),
    )


def read_retry_after(text: str) -> float | None:
    """Return the seconds of a Retry-After header, given as a number or as a date."""
    if text.isdecimal():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
