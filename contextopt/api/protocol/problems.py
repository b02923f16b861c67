"""All error responses of the API, as application/problem+json (RFC 9457)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NotRequired, TypedDict

import structlog
from django.core.exceptions import DisallowedHost, ObjectDoesNotExist, RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import ValidationError as ModelValidationError
from django.core.signals import got_request_exception
from django.db import IntegrityError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, AuthorizationError, HttpError, ValidationError
from pydantic_core import to_json

from contextopt.engine.validation import BudgetExceeded, EngineError, InvalidValue
from contextopt.errors import (
    Busy,
    Conflict,
    DuplicateRecord,
    FieldProblem,
    InvalidInput,
    NotFound,
    OpenDecisions,
    ServiceUnavailable,
    TooManyAttempts,
    TooManyRequests,
)
from contextopt.faults import NAMED_MAX, describe_faults
from contextopt.locks import is_about_deleted, is_out_of_time
from contextopt.people.keys import Allowance

CONTENT_TYPE = "application/problem+json"
TYPE_PREFIX = "urn:contextopt:problem:"
RETRY_AFTER_SECONDS = 2
OUT_OF_TIME = "Another request was writing there and took too long. Nothing was written. Try again."

log = structlog.get_logger(__name__)


class FieldError(TypedDict):
    field: str
    message: str


class Problem(TypedDict):
    """An error response, according to RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: NotRequired[list[FieldError]]


class RequestError(Exception):
    """Base of errors in a request outside its fields."""


class MalformedBody(RequestError):
    """The body does not match its headers: not JSON, or not gzip."""


class UnsupportedBody(RequestError):
    """The API does not support the body's type or encoding."""


class BodyTooLarge(RequestError):
    """The body is too large, either as sent or after unpacking."""


class RequestInProgress(RequestError):
    """A request with the same Idempotency-Key is in progress."""


def problem(
    request: HttpRequest,
    status: int,
    kind: str,
    title: str,
    detail: str,
    *,
    errors: Iterable[FieldError] = (),
    headers: Mapping[str, str] | None = None,
    **members: object,
) -> HttpResponse:
    """Return one problem. `kind` ends its type; `members` are added to its object."""
    body: dict[str, object] = {
        "type": TYPE_PREFIX + kind,
        "title": title,
        "status": status,
        "detail": detail,
        "instance": request.path,
    }
    if listed := list(errors):
        body["errors"] = listed
    return HttpResponse(
        to_json(body | members), status=status, content_type=CONTENT_TYPE, headers=dict(headers or {})
    )


class Answer(NamedTuple):
    """How a class of errors is answered. Without a `detail`, the error's own message is shown."""

    status: int
    kind: str
    title: str
    detail: str = ""
    headers: Mapping[str, str] = {}


SOON = {"Retry-After": str(RETRY_AFTER_SECONDS)}
ANSWERS: Mapping[type[Exception], Answer] = {
    AuthenticationError: Answer(
        401, "unauthenticated", "Unauthenticated",
        "Send a valid API key, as `Authorization: Bearer KEY` or as `X-API-Key: KEY`.",
        {"WWW-Authenticate": 'Bearer realm="contextopt"'},
    ),
    AuthorizationError: Answer(403, "forbidden", "Forbidden"),
    BodyTooLarge: Answer(413, "body-too-large", "Body too large"),
    Busy: Answer(503, "busy", "Busy", headers=SOON),
    Conflict: Answer(409, "conflict", "Conflict"),
    DisallowedHost: Answer(
        400, "bad-request", "Bad request", "The Host header is not one of this server's names."
    ),
    Http404: Answer(404, "not-found", "Not found", "There is nothing at this address."),
    NotFound: Answer(404, "not-found", "Not found"),
    RequestDataTooBig: Answer(413, "body-too-large", "Body too large", "The body is larger than 32 MiB."),
    RequestInProgress: Answer(
        409, "request-in-progress", "Request in progress",
        "A request with this Idempotency-Key is still in progress.", SOON,
    ),
    SuspiciousOperation: Answer(400, "bad-request", "Bad request", "The request is malformed."),
    UnsupportedBody: Answer(
        415, "unsupported-media-type", "Unsupported media type",
        headers={"Accept-Encoding": "gzip, identity"},
    ),
}  # fmt: skip


def refuse(request: HttpRequest, exc: Exception) -> HttpResponse:
    """Answer an error that is in the table, itself or by a base class."""
    answer = next(ANSWERS[kind] for kind in type(exc).mro() if kind in ANSWERS)
    status, kind, title, detail, headers = answer
    return problem(request, status, kind, title, detail or str(exc), headers=headers)


def method_not_allowed(request: HttpRequest, allowed: Iterable[str]) -> HttpResponse:
    allow = ", ".join(sorted(allowed))
    detail = f"This address accepts {allow}, not {request.method}."
    return problem(request, 405, "method-not-allowed", "Method not allowed", detail, headers={"Allow": allow})


def length_required(request: HttpRequest) -> HttpResponse:
    detail = "Send a Content-Length. Chunked bodies are not supported."
    return problem(request, 411, "length-required", "Length required", detail)


def field_errors(problems: Iterable[FieldProblem]) -> list[FieldError]:
    return [FieldError(field=item.field, message=item.message) for item in problems]


def invalid(request: HttpRequest, errors: Sequence[FieldError]) -> HttpResponse:
    first = errors[0]
    more = f" ({len(errors) - 1} more)" if len(errors) > 1 else ""
    detail = f"{first['field']}: {first['message']}{more}"
    return problem(request, 422, "invalid-input", "Invalid input", detail, errors=errors)


def on_validation_error(request: HttpRequest, exc: ValidationError) -> HttpResponse:
    errors: list[FieldError] = []
    for item in exc.errors:
        # ("body", parameter, field…) against ("query", field): the parameter's name is internal.
        errors += field_errors(describe_faults([item], skip=2 if item["loc"][0] == "body" else 1))
    merged: dict[str, list[str]] = {}
    for error in errors[: 4 * NAMED_MAX]:
        merged.setdefault(error["field"], []).append(error["message"])
    named = [FieldError(field=name, message="; or ".join(dict.fromkeys(m))) for name, m in merged.items()]
    return invalid(request, named[:NAMED_MAX])


def on_invalid_input(request: HttpRequest, exc: InvalidInput | InvalidValue) -> HttpResponse:
    return invalid(request, errors_of(exc))


def errors_of(exc: InvalidInput | EngineError) -> list[FieldError]:
    """Return the invalid fields in the error of a single row."""
    if isinstance(exc, InvalidInput):
        return field_errors(exc.problems)
    if isinstance(exc, InvalidValue):
        return [FieldError(field=exc.field, message=exc.message)]
    return [FieldError(field="total_tokens", message=str(exc))]


def on_budget_exceeded(request: HttpRequest, exc: BudgetExceeded) -> HttpResponse:
    return problem(
        request,
        422,
        "budget-exceeded",
        "Budget exceeded",
        str(exc),
        errors=errors_of(exc),
        missing_tokens=exc.missing,
    )


def on_conflict(request: HttpRequest, exc: Conflict) -> HttpResponse:
    if isinstance(exc, DuplicateRecord):
        return problem(request, 409, "duplicate", "Conflict", str(exc), record_id=exc.record_id)
    if isinstance(exc, OpenDecisions):
        detail = str(exc)
        return problem(request, 409, "open-decisions", "Conflict", detail, open_decisions=exc.findings)
    return refuse(request, exc)


def on_unavailable(request: HttpRequest, exc: Exception) -> HttpResponse:
    if is_out_of_time(exc):
        log.warning("api_out_of_time", path=request.path, error=str(exc))
        return refuse(request, Busy(OUT_OF_TIME))
    log.error("api_unavailable", path=request.path, exc_info=exc)
    detail = "A service that this request needs is unavailable. Nothing was written."
    return problem(request, 503, "unavailable", "Service unavailable", detail, headers=SOON)


def on_deleted(request: HttpRequest, exc: Exception) -> HttpResponse:
    """Handle deletion of an item since the request began, and the other causes of these errors."""
    if not is_about_deleted(exc):
        return on_unexpected(request, exc)
    log.warning("api_found_it_deleted", path=request.path, exc_info=exc)
    detail = "The item was deleted in the meantime. Nothing was written."
    return problem(request, 404, "not-found", "Not found", detail)


def on_malformed_body(request: HttpRequest, exc: MalformedBody) -> HttpResponse:
    error = FieldError(field="body", message=str(exc))
    return problem(request, 400, "malformed-body", "Malformed body", str(exc), errors=[error])


def on_too_many_attempts(request: HttpRequest, exc: TooManyAttempts) -> HttpResponse:
    headers = {"Retry-After": str(exc.seconds)}
    return problem(request, 429, "too-many-attempts", "Too many attempts", str(exc), headers=headers)


def on_too_many_requests(request: HttpRequest, exc: TooManyRequests) -> HttpResponse:
    headers = {"Retry-After": str(exc.seconds), **Allowance(exc.limit, 0, exc.reset).headers()}
    return problem(request, 429, "too-many-requests", "Too many requests", str(exc), headers=headers)


def on_unexpected(request: HttpRequest, exc: Exception) -> HttpResponse:
    """Handle an internal error: the log gets the trace, and the caller gets no detail of it."""
    log.error("api_failed", method=request.method, path=request.path, exc_info=exc)
    # Error reporters listen to this signal, as for every other view.
    got_request_exception.send(sender=None, request=request)
    detail = "The server failed to process this request. The error was logged."
    return problem(request, 500, "internal-error", "Internal server error", detail)


def install(api: NinjaAPI) -> None:
    """Register the handlers. The most specific class of an exception wins."""

    def on_http_error(request: HttpRequest, exc: HttpError) -> HttpResponse:
        # Ninja wraps whatever the body's parser raised.
        if exc.__cause__ is not None:
            return api.on_exception(request, exc.__cause__)  # type: ignore[arg-type]
        return problem(request, exc.status_code, "refused", "Refused", str(exc))

    handlers: dict[type[Exception], Any] = {
        **dict.fromkeys(ANSWERS, refuse),
        BudgetExceeded: on_budget_exceeded,
        Conflict: on_conflict,
        Exception: on_unexpected,
        HttpError: on_http_error,
        IntegrityError: on_deleted,
        InterfaceError: on_unavailable,
        InvalidInput: on_invalid_input,
        InvalidValue: on_invalid_input,
        MalformedBody: on_malformed_body,
        ModelValidationError: lambda request, exc: on_invalid_input(request, InvalidInput.of_model(exc)),
        ObjectDoesNotExist: on_deleted,
        OperationalError: on_unavailable,
        ServiceUnavailable: on_unavailable,
        TooManyAttempts: on_too_many_attempts,
        TooManyRequests: on_too_many_requests,
        ValidationError: on_validation_error,
    }
    for kind, handler in handlers.items():
        api.add_exception_handler(kind, handler)
