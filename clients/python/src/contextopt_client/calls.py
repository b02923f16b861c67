"""One call with its retries, without any input or output: both clients follow the same steps."""

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
# A server that asks for more is not waited for; its error says how long it asked for.
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


type Step = Call | Wait
type Outcome = httpx2.Response | httpx2.RequestError | None


def headers_of(call: Call) -> dict[str, str]:
    return {"Idempotency-Key": uuid.uuid4().hex} if call.is_write else {}


def follow(call: Call, retries: int) -> Generator[Step, Outcome, Any]:
    """Yield the call as often as it is to be made, and the waits between; return the answer.

    The client sends back what came of each call: a response, or the fault of its connection.

    Raises:
        ApiError: the API refused.
        NoAnswer: there was none.
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
    """Return seconds to wait after this attempt, from 0: doubled each time, at random below that."""
    return float(FIRST_WAIT_SECONDS * 2**attempt * random.uniform(0.5, 1))  # noqa: S311


def read_answer(call: Call, response: httpx2.Response) -> Any:
    """Return the answer's JSON.

    Raises:
        NoAnswer: it is none of the API's, such as the login page of a proxy.
    """
    if not response.content:
        return None
    try:
        return response.json()
    except ValueError as error:
        raise NoAnswer(f"{call.method} {call.path}: the answer is not JSON") from error


def read_error(response: httpx2.Response) -> ApiError:
    """Return the error of a refusal. A proxy's answer may be no problem details."""
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
