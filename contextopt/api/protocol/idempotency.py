"""Idempotent writes: a repeated Idempotency-Key returns the first response."""

import hashlib
from collections.abc import Callable

from django.db import transaction
from django.http import HttpRequest, HttpResponse

from contextopt.api.protocol.authentication import ApiRequest, View
from contextopt.api.protocol.problems import RequestInProgress
from contextopt.errors import InvalidInput
from contextopt.locks import Lock, take_turn
from contextopt.people.models import StoredResponse
from contextopt.spaces.storedresponses import named_records

HEADER = "Idempotency-Key"
KEY_MAX = 255
WRITES = frozenset({"POST", "PATCH", "DELETE"})


def answer_holds_secret(view: View) -> View:
    """Mark a view whose response must not be stored. Its writes accept no Idempotency-Key."""
    view.holds_secret = True  # type: ignore[attr-defined]
    return view


def is_repeatable(view: View) -> bool:
    return not getattr(view, "holds_secret", False)


def answer_once(
    request: ApiRequest, key: str, view: View, compute: Callable[[], HttpResponse]
) -> HttpResponse:
    """Return the stored response to a repeated write, so that it is done once.

    The write and its stored response are one transaction, so there is never one without the other. A rejected
    write stores nothing, so it can be corrected and sent again under the same key.
    """
    if not (1 <= len(key) <= KEY_MAX and key.isascii() and key.isprintable()):
        raise InvalidInput.of(HEADER, f"must be 1 to {KEY_MAX} printable ASCII characters")
    if not is_repeatable(view):
        raise InvalidInput.of(
            HEADER, "is not supported here, because the response contains a secret that is not stored"
        )
    with transaction.atomic():
        return _answer(request, key, compute)


def _answer(request: ApiRequest, key: str, compute: Callable[[], HttpResponse]) -> HttpResponse:
    if not take_turn(Lock.IDEMPOTENCY, request.auth.first_id, key):
        raise RequestInProgress
    digest = hash_request(request)
    stored = StoredResponse.objects.filter(api_key_id=request.auth.first_id, idempotency_key=key).first()
    if stored is None:
        response = compute()
        StoredResponse.objects.create(
            api_key_id=request.auth.first_id,
            idempotency_key=key,
            request_hash=digest,
            status=response.status_code,
            body=response.content,
            content_type=response.get("Content-Type", ""),
            location=response.get("Location", ""),
            record_ids=named_records(response.content),
        )
        return response
    if stored.request_hash != digest:
        raise InvalidInput.of(
            HEADER, "was already used for a different request; use a new key for each write"
        )
    return replay(stored)


def hash_request(request: HttpRequest) -> str:
    """Return the SHA-256 of the request: method, address and unpacked body."""
    head = f"{request.method} {request.get_full_path()}\n".encode()
    return hashlib.sha256(head + getattr(request, "unpacked_body", b"")).hexdigest()


def replay(stored: StoredResponse) -> HttpResponse:
    response = HttpResponse(
        bytes(stored.body), status=stored.status, headers={"Idempotency-Replayed": "true"}
    )
    for name, value in (("Content-Type", stored.content_type), ("Location", stored.location)):
        if value:
            response[name] = value
    return response
