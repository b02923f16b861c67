"""Client for Contextopt: ask for the context of a prompt, search, remember and vote."""

from contextopt_client.client import AsyncContextopt, Contextopt
from contextopt_client.errors import (
    ApiError,
    Conflict,
    ContextoptError,
    InvalidRequest,
    NoAnswer,
    NotAllowed,
    NotFound,
    ServerError,
    TooManyRequests,
    WrongKey,
)

__all__ = [
    "ApiError",
    "AsyncContextopt",
    "Conflict",
    "Contextopt",
    "ContextoptError",
    "InvalidRequest",
    "NoAnswer",
    "NotAllowed",
    "NotFound",
    "ServerError",
    "TooManyRequests",
    "WrongKey",
]
