"""The error responses that every endpoint may give, each with an example."""

from typing import Any, NamedTuple

from contextopt.api.protocol.problems import CONTENT_TYPE, TYPE_PREFIX

BODY_REFUSALS = frozenset({411, 413, 415})


class Refusal(NamedTuple):
    """One error status: when it is given, and the values of its example."""

    description: str
    kind: str
    title: str
    detail: str
    instance: str
    field: str = ""


REFUSALS = {
    400: Refusal(
        "The request or its body is malformed.",
        "malformed-body", "Malformed body",
        "The body is not JSON: EOF while parsing a value at line 1 column 9.",
        "/api/v1/spaces", "body",
    ),
    401: Refusal(
        "The API key is missing or invalid.",
        "unauthenticated", "Unauthenticated",
        "Send a valid API key, as `Authorization: Bearer KEY` or as `X-API-Key: KEY`.", "/api/v1/me",
    ),
    403: Refusal(
        "The key's scope does not allow this, or the key is limited to spaces.",
        "forbidden", "Forbidden", "This requires a key with scope write. Yours has scope read.",
        "/api/v1/spaces",
    ),
    404: Refusal(
        "The item does not exist, belongs to another team, or is in a space that the key does not reach.",
        "not-found", "Not found", "There is no space 'sales'.", "/api/v1/spaces/sales",
    ),
    409: Refusal(
        "The item's state does not allow this, or a request with the same Idempotency-Key is in progress.",
        "conflict", "Conflict", "A space with the slug 'support' already exists.", "/api/v1/spaces",
    ),
    411: Refusal(
        "The request has no Content-Length. Chunked bodies are not supported.",
        "length-required", "Length required", "Send a Content-Length. Chunked bodies are not supported.",
        "/api/v1/spaces",
    ),
    413: Refusal(
        "The body is too large, either as sent or after unpacking.",
        "body-too-large", "Body too large", "The body is larger than 32 MiB.", "/api/v1/spaces",
    ),
    415: Refusal(
        "The body's content type or encoding is not supported.",
        "unsupported-media-type", "Unsupported media type", "Send application/json, not text/plain.",
        "/api/v1/spaces",
    ),
    422: Refusal(
        "Some fields are invalid. The response names each of them.",
        "invalid-input", "Invalid input", "slug: must have at least 1 character", "/api/v1/spaces", "slug",
    ),
    429: Refusal(
        "Too many invalid keys from this address, or too many requests with this key. Try again after "
        "Retry-After seconds.",
        "too-many-attempts", "Too many attempts", "Too many failed attempts. Try again in 60 seconds.",
        "/api/v1/me",
    ),
    503: Refusal(
        "A service this request needs is unavailable, or too many of your team's requests are waiting (type "
        "`busy`). Try again after Retry-After seconds.",
        "unavailable", "Service unavailable",
        "A service that this request needs is unavailable. Nothing was written.", "/api/v1/spaces",
    ),
}  # fmt: skip


def refusals_json() -> dict[str, Any]:
    """Return the responses as shared components of the API's description."""
    return {f"Refusal{status}": _response(status, refusal) for status, refusal in REFUSALS.items()}


def refusals_of(operation: dict[str, Any]) -> dict[int, Any]:
    """Return references to the responses that an operation may give."""
    has_body = "requestBody" in operation
    return {
        status: {"$ref": f"#/components/responses/Refusal{status}"}
        for status in REFUSALS
        if has_body or status not in BODY_REFUSALS
    }


def problem_json(status: int) -> dict[str, Any]:
    """Return the example of an error response."""
    _, kind, title, detail, instance, field = REFUSALS[status]
    shown = {"type": TYPE_PREFIX + kind, "title": title, "status": status, "detail": detail}
    errors = [{"field": field, "message": detail.removeprefix(f"{field}: ")}] if field else []
    return shown | {"instance": instance} | ({"errors": errors} if errors else {})


def _response(status: int, refusal: Refusal) -> dict[str, Any]:
    content = {"schema": {"$ref": "#/components/schemas/Problem"}, "example": problem_json(status)}
    return {"description": refusal.description, "content": {CONTENT_TYPE: content}}
