"""Transport of API requests: limits, and reading of bodies."""

import json
import math
import zlib
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.urls import resolve
from ninja.parser import Parser
from pydantic_core import from_json

from contextopt.api.protocol import problems
from contextopt.api.protocol.problems import BodyTooLarge, MalformedBody, UnsupportedBody
from contextopt.errors import InvalidInput
from contextopt.faults import NAME_MAX
from contextopt.inputs import has_surrogate
from contextopt.strictjson import DuplicateKey, check_keys, has_more_values

API_PREFIX = "/api/"
VERSION_PREFIX = "/api/v1/"
GZIP_WINDOW_BITS = 31
# After each member, zlib copies all that follows.
GZIP_MEMBERS_MAX = 100
# Parsing and validating more would hold a process for seconds.
VALUES_MAX = 500_000


class ApiTransportMiddleware:
    """Process API requests without the browser layers: no session, cookie, CSRF or message work.

    An unknown address or method is reported as a problem too.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if not request.path_info.startswith(API_PREFIX):
            return self.get_response(request)
        try:
            request.get_host()
            match = resolve(request.path_info)
        except DisallowedHost:
            return problems.bad_request(request, "The Host header is not one of this server's names.")
        except Http404 as missing:
            return problems.not_found(request, missing)
        if not request.path_info.startswith(VERSION_PREFIX):
            return self.get_response(request)
        if is_unread(request):
            return problems.length_required(request)
        request.resolver_match = match
        response = answer(request, match.func, match.args, match.kwargs)
        if (allowance := getattr(request, "allowance", None)) is not None:
            for name, value in allowance.headers().items():
                response[name] = value
        return response


def is_unread(request: HttpRequest) -> bool:
    """Return whether the body is chunked, which Django treats as no body under WSGI."""
    meta = request.META
    return "HTTP_TRANSFER_ENCODING" in meta and not meta.get("CONTENT_LENGTH") and "wsgi.input" in meta


def answer(
    request: HttpRequest, view: Callable[..., HttpResponseBase], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> HttpResponseBase:
    try:
        response = view(request, *args, **kwargs)
    except Http404 as missing:
        return problems.not_found(request, missing)
    if isinstance(response, HttpResponseNotAllowed):
        return problems.method_not_allowed(request, response["Allow"].split(", "))
    if isinstance(response, HttpResponse):
        # Without it the server sends the body in chunks.
        response["Content-Length"] = str(len(response.content))
    return response


def refuse_unknown_query(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Wrap a view so that a misspelt filter is an error instead of returning everything."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.META.get("QUERY_STRING") and (unknown := set(request.GET) - query_names(view)):
            name = min(unknown)[:NAME_MAX]
            raise InvalidInput.of(name, "is not a parameter of this endpoint")
        return view(request, *args, **kwargs)

    return wrapped


def query_names(view: Callable[..., HttpResponse]) -> set[str]:
    """Return the query parameters of a view, as Ninja read them from its signature."""
    models = view._ninja_operation.models  # type: ignore[attr-defined]
    sources = [model for model in models if model.__ninja_param_source__ == "query"]
    return {name for model in sources for name in model.__ninja_flatten_map__}


class JsonBody(Parser):
    """Read a JSON body, optionally compressed with gzip.

    Ninja calls this after authentication only, so a stranger cannot make the server unpack anything.
    """

    def parse_body(self, request: HttpRequest) -> Any:
        check_content_type(request)
        body = unpack(request)
        # Kept for the hash of an Idempotency-Key, since the same body may be packed in different ways.
        request.unpacked_body = body  # type: ignore[attr-defined]
        return read_value(body)


def check_content_type(request: HttpRequest) -> None:
    content_type = request.content_type or ""
    if content_type and content_type != "application/json" and not content_type.endswith("+json"):
        raise UnsupportedBody(f"Send application/json, not {content_type[:100]}.")


def unpack(request: HttpRequest) -> bytes:
    """Return the body's bytes without their content encoding.

    Raises:
        BodyTooLarge: it exceeded the limit. Nothing beyond the limit was unpacked.
    """
    encoding = request.META.get("HTTP_CONTENT_ENCODING", "").strip().lower()
    if encoding in {"", "identity"}:
        return request.body
    if encoding not in {"gzip", "x-gzip"}:
        raise UnsupportedBody(f"Send the body uncompressed or as gzip, not {encoding[:100]}.")
    return gunzip(request.body, limit=settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


def gunzip(packed: bytes, *, limit: int) -> bytes:
    """Unpack up to a hundred gzip members, stopping at the limit."""
    parts: list[bytes] = []
    size = 0
    while packed:
        if len(parts) == GZIP_MEMBERS_MAX:
            raise MalformedBody(f"The body has more than {GZIP_MEMBERS_MAX} gzip members.")
        unpacker = zlib.decompressobj(GZIP_WINDOW_BITS)
        try:
            part = unpacker.decompress(packed, limit - size + 1)
        except zlib.error as error:
            raise MalformedBody(f"The body is not gzip: {error}.") from None
        size += len(part)
        if size > limit:
            raise BodyTooLarge(f"The unpacked body is larger than {limit // 2**20} MiB.")
        if not unpacker.eof:
            raise MalformedBody("The gzip stream of the body is incomplete.")
        parts.append(part)
        packed = unpacker.unused_data
    return b"".join(parts)


def read_value(body: bytes) -> Any:
    """Return the JSON value of a body.

    Raises:
        InvalidInput: it has too many values, or it is JSON, but an object has a duplicate key, or a text or
            number cannot be stored.
        MalformedBody: it is not JSON.
    """
    if has_more_values(body, VALUES_MAX):
        raise InvalidInput.of("body", f"must have at most {VALUES_MAX:,} values")
    try:
        value = from_json(body, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        malformed = MalformedBody(f"The body is not JSON: {error}.")
    else:
        refuse_keys(body)
        return value
    # Python's parser accepts the cases that RFC 8259 leaves open, so that the invalid field can be named.
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise malformed from None
    for path, fault in find_unstorable(value):
        raise InvalidInput.of(".".join(path)[:NAME_MAX] or "body", fault)
    raise malformed


def refuse_keys(body: bytes) -> None:
    """Raise InvalidInput if an object has a key twice."""
    try:
        check_keys(body)
    except DuplicateKey as error:
        raise InvalidInput.of(error.key[:NAME_MAX], str(error)) from None


def find_unstorable(value: Any) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the places of lone surrogates, NaN and infinities, in no particular order.

    Only the path to the current value is held, so memory grows with the depth only.
    """
    levels: list[Iterator[tuple[object, Any]]] = [iter([("", value)])]
    names: list[object] = [""]
    while levels:
        entry = next(levels[-1], None)
        if entry is None:
            levels.pop()
            names.pop()
            continue
        names[-1], item = entry
        for fault in _faults(item):
            yield tuple(map(str, names[1:])), fault
        if isinstance(item, dict | list):
            levels.append(_children(item))
            names.append("")


def _faults(item: Any) -> Iterator[str]:
    """Yield the errors in a value, apart from its children."""
    if isinstance(item, str):
        if has_surrogate(item):
            yield "contains a lone surrogate, which is not a character"
    elif isinstance(item, float):
        if not math.isfinite(item):
            yield "must be a finite number"
    elif isinstance(item, dict):
        for name in item:
            if has_surrogate(name):
                yield "has a field whose name contains a lone surrogate"


def _children(item: dict[str, Any] | list[Any]) -> Iterator[tuple[object, Any]]:
    """Yield the children with their names or places, last first."""
    if isinstance(item, dict):
        return reversed(item.items())
    return zip(range(len(item) - 1, -1, -1), reversed(item), strict=True)
