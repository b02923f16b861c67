"""The client's errors.

ContextoptError
├── NoAnswer               no connection, no answer in time, or an answer that is not the API's
└── ApiError               the API refused: status, title, detail, errors by field
    ├── InvalidRequest     400, 413, 415, 422
    ├── WrongKey           401
    ├── NotAllowed         403
    ├── NotFound           404
    ├── Conflict           409
    ├── TooManyRequests    429
    └── ServerError        500 and above
"""

from dataclasses import dataclass, field


class ContextoptError(Exception):
    """The base of all errors of this package."""


class NoAnswer(ContextoptError):
    """No connection or no answer in time after all attempts, or an answer that is not the API's."""


@dataclass
class ApiError(ContextoptError):
    """A refusal, as the API's problem details describe it. `errors` are messages by field."""

    status: int
    title: str
    detail: str
    errors: dict[str, str] = field(default_factory=dict)
    retry_after: float | None = None

    def __str__(self) -> str:
        return f"{self.status} {self.title}: {self.detail}"


class InvalidRequest(ApiError):
    pass


class WrongKey(ApiError):
    pass


class NotAllowed(ApiError):
    pass


class NotFound(ApiError):
    pass


class Conflict(ApiError):
    pass


class TooManyRequests(ApiError):
    pass


class ServerError(ApiError):
    pass


KINDS: dict[int, type[ApiError]] = {
    400: InvalidRequest,
    401: WrongKey,
    403: NotAllowed,
    404: NotFound,
    409: Conflict,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    429: TooManyRequests,
}


def kind_of(status: int) -> type[ApiError]:
    return KINDS.get(status, ServerError if status >= 500 else ApiError)
