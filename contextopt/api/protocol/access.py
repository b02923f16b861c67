"""Authenticate API keys, check their scope, and find the team they act for."""

from collections.abc import Callable

from django.http import HttpRequest
from ninja.errors import AuthorizationError
from ninja.security import APIKeyHeader, HttpBearer

from contextopt.models import ApiKey, Scope, Space
from contextopt.people.keychecks import find_key
from contextopt.people.logins import count_wrong_key
from contextopt.people.rates import Allowance, count_request
from contextopt.people.ways import way_of
from contextopt.spaces import spaces


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
        if not key.allows(needed):
            raise AuthorizationError(
                message=f"This requires a key with scope {needed.value}. Yours has scope {key.scope}."
            )
    return key


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
    return spaces.find_space(request.auth.team_id, slug)
