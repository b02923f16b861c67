"""Authenticates API keys, checks their scope and spaces, and finds the team they act for."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from ninja.errors import AuthorizationError
from ninja.security import APIKeyHeader, HttpBearer
from pydantic import BaseModel

from contextopt.assemblies.models import Assembly
from contextopt.chat.models import Conversation, Message
from contextopt.errors import NotFound
from contextopt.people.keys import Allowance, count_request, find_key, way_of
from contextopt.people.logins import count_wrong_key
from contextopt.people.models import ApiKey, Scope
from contextopt.spaces.models import Record, Space


class ApiRequest(HttpRequest):
    """An authenticated request. `allowance` is what its key may still send."""

    auth: ApiKey
    allowance: Allowance | None


def admit(request: HttpRequest, secret: str, needed: Scope) -> ApiKey | None:
    """Return the key of this secret, count its request and check its scope.

    Raises:
        TooManyRequests: the key has reached its limit.
        AuthorizationError: its scope is lower.
    """
    key = find_key(secret.strip(), way_of(request.headers.get("User-Agent", "")))
    if key is not None:
        request.allowance = count_request(key)  # type: ignore[attr-defined]
        require_scope(key, needed)
    return key


def require_scope(key: ApiKey, needed: Scope) -> None:
    """Raises: AuthorizationError: the key's scope is lower."""
    if not key.allows(needed):
        message = f"This requires a key with scope {needed.value}. Yours has scope {key.scope}."
        raise AuthorizationError(message=message)


class BearerKey(HttpBearer):
    """`Authorization: Bearer KEY`."""

    def __init__(self, needed: Scope) -> None:
        super().__init__()
        self.needed = needed

    def authenticate(self, request: HttpRequest, token: str) -> ApiKey | None:
        return admit(request, token, self.needed)


class HeaderKey(APIKeyHeader):
    """`X-API-Key: KEY`."""

    param_name = "X-API-Key"

    def __init__(self, needed: Scope) -> None:
        super().__init__()
        self.needed = needed

    def authenticate(self, request: HttpRequest, key: str | None) -> ApiKey | None:
        return admit(request, key or "", self.needed)


def allow(needed: Scope) -> list[Callable[[HttpRequest], object]]:
    """Return the authenticators for keys of this scope or higher. Callers that fail both are counted."""
    return [BearerKey(needed), HeaderKey(needed), count_wrong_key]


READ = allow(Scope.READ)
WRITE = allow(Scope.WRITE)
ADMIN = allow(Scope.ADMIN)


def actor(request: ApiRequest) -> str:
    """Return the caller's name for revisions and logs."""
    return f"key:{request.auth.name}"


def find_space(request: ApiRequest, slug: str) -> Space:
    """Return the team's space. Raises: NotFound."""
    return Space.objects.find(request.auth.team_id, slug)


NEEDS_SPACE = "is required for a key that is limited to spaces"
# Nouns for parameters whose names do not say them.
NOUNS = {"slug": "space", "set_id": "question set"}

type View = Callable[..., HttpResponse]
type Check = Callable[[ApiKey, Any], bool]


def within_spaces(**checks: Check) -> Callable[[View], View]:
    """Open a view to keys that are limited to spaces. `checks` are for parameters that only it has."""

    def marked(view: View) -> View:
        view.checks = {**CHECKS, **checks}  # type: ignore[attr-defined]
        return view

    return marked


def confine(key: ApiKey, view: View, given: Mapping[str, Any]) -> None:
    """Check that a limited key asks for nothing from outside its spaces.

    Raises:
        AuthorizationError: the view is not open to such keys.
        NotFound: it is asked for something in another space.
    """
    checks: Mapping[str, Check] | None = getattr(view, "checks", None)
    if checks is None:
        spaces = ", ".join(key.space_slugs) or "none that still exist"
        raise AuthorizationError(
            message=f"This requires a key for all spaces. Yours is limited to: {spaces}."
        )
    for name, value in _asked(given, checks):
        if not checks[name](key, value):
            noun = NOUNS.get(name) or name.removesuffix("_id").replace("_", " ")
            raise NotFound(f"There is no {noun} {value!r}.")


def in_reach[Row: Model](request: ApiRequest, rows: QuerySet[Row], field: str = "space_id") -> QuerySet[Row]:
    """Return the rows in the spaces that the key reaches: all for a key that is not limited."""
    return rows.filter(**{f"{field}__in": request.auth.space_ids}) if request.auth.is_limited else rows


def is_reached(key: ApiKey, rows: "QuerySet[Any]", field: str = "space_id") -> bool:
    """Return whether one of the rows is in a space that the key reaches."""
    return rows.filter(**{f"{field}__in": key.space_ids}).exists()


def _asked(kwargs: Mapping[str, Any], checks: Mapping[str, Check]) -> Iterator[tuple[str, Any]]:
    """Yield the checked parameters that are given, from the path, the query and the body."""
    for name, value in kwargs.items():
        inner = (
            {field: getattr(value, field, None) for field in checks} if isinstance(value, BaseModel) else {}
        )
        for field, given in (inner or {name: value}).items():
            if field in checks and given is not None:
                yield field, given


CHECKS: Mapping[str, Check] = {
    "slug": lambda key, slug: slug in key.space_slugs,
    "space": lambda key, slug: slug in key.space_slugs,
    "record_id": lambda key, pk: is_reached(key, Record.objects.filter(pk=pk)),
    "assembly_id": lambda key, pk: is_reached(key, Assembly.objects.filter(pk=pk)),
    "conversation_id": lambda key, pk: is_reached(key, Conversation.objects.filter(pk=pk)),
    "message_id": lambda key, pk: is_reached(key, Message.objects.filter(pk=pk), "conversation__space_id"),
    # Tasks belong to no space.
    "task_id": lambda _key, _pk: False,
}
