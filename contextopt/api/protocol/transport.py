"""Transport of API requests: limits, and reading of bodies."""

import json
import math
import zlib
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.urls import resolve
from ninja.parser import Parser
from pydantic_core import from_json

from contextopt.api.protocol import problems
from contextopt.api.protocol.authentication import ApiRequest, View, confine
from contextopt.api.protocol.idempotency import HEADER, WRITES, answer_once
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
            if not request.path_info.startswith(VERSION_PREFIX):
                return self.get_response(request)
            # Django treats a chunked body as no body under WSGI.
            meta = request.META
            is_unread = "HTTP_TRANSFER_ENCODING" in meta and not meta.get("CONTENT_LENGTH")
            if is_unread and "wsgi.input" in meta:
                return problems.length_required(request)
            request.resolver_match = match
            response: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
        except (DisallowedHost, Http404) as error:
            return problems.refuse(request, error)
        if isinstance(response, HttpResponseNotAllowed):
            response = problems.method_not_allowed(request, response["Allow"].split(", "))
        elif isinstance(response, HttpResponse):
            # Without it the server sends the body in chunks.
            response["Content-Length"] = str(len(response.content))
        if (allowance := getattr(request, "allowance", None)) is not None:
            for name, value in allowance.headers().items():
                response[name] = value
        return response


def guard(view: View) -> View:
    """Wrap a view in what applies to all of them: the spaces of the key, known parameters, safe retries.

    A misspelt filter is an error instead of returning everything.
    """

    @wraps(view)
    def wrapped(request: ApiRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.auth.is_limited:
            confine(request.auth, view, kwargs)
        if request.META.get("QUERY_STRING") and (unknown := set(request.GET) - query_names(view)):
            raise InvalidInput.of(min(unknown)[:NAME_MAX], "is not a parameter of this endpoint")
        key = request.headers.get(HEADER)
        if key is None or request.method not in WRITES:
            return view(request, *args, **kwargs)
        return answer_once(request, key, view, lambda: view(request, *args, **kwargs))

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
        content_type = request.content_type or ""
        if content_type and content_type != "application/json" and not content_type.endswith("+json"):
            raise UnsupportedBody(f"Send application/json, not {content_type[:100]}.")
        encoding = request.META.get("HTTP_CONTENT_ENCODING", "").strip().lower()
        if encoding in {"", "identity"}:
            body = request.body
        elif encoding in {"gzip", "x-gzip"}:
            body = gunzip(request.body, limit=settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        else:
            raise UnsupportedBody(f"Send the body uncompressed or as gzip, not {encoding[:100]}.")
        # Kept for the hash of an Idempotency-Key, since the same body may be packed in different ways.
        request.unpacked_body = body  # type: ignore[attr-defined]
        return read_value(body)


def gunzip(packed: bytes, *, limit: int) -> bytes:
    """Unpack up to a hundred gzip members.

    Raises:
        BodyTooLarge: it exceeded the limit. Nothing beyond the limit was unpacked.
        MalformedBody: it is not gzip, or incomplete.
    """
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
        try:
            check_keys(body)
        except DuplicateKey as error:
            raise InvalidInput.of(error.key[:NAME_MAX], str(error)) from None
        return value
    # Python's parser accepts the cases that RFC 8259 leaves open, so that the invalid field can be named.
    try:
        found = find_unstorable(json.loads(body))
    except (ValueError, RecursionError):
        raise malformed from None
    if found is None:
        raise malformed
    path, fault = found
    raise InvalidInput.of(".".join(path)[:NAME_MAX] or "body", fault)


def find_unstorable(value: object) -> tuple[tuple[str, ...], str] | None:
    """Return the place of a lone surrogate, a NaN or an infinity, and what is wrong with it.

    Raises:
        RecursionError: the value is nested too deep.
    """
    children: Iterable[tuple[object, object]] = ()
    match value:
        case str() if has_surrogate(value):
            return (), "contains a lone surrogate, which is not a character"
        case float() if not math.isfinite(value):
            return (), "must be a finite number"
        case dict() if any(map(has_surrogate, value)):
            return (), "has a field whose name contains a lone surrogate"
        case dict():
            children = value.items()
        case list():
            children = enumerate(value)
    for name, inner in children:
        if found := find_unstorable(inner):
            path, fault = found
            return (str(name), *path), fault
    return None


# The API's description, which is the same for everybody.
PUBLIC = ("/api/openapi.json", "/api/docs")
NO_STORE = "no-store"


class NoStoreMiddleware:
    """Forbids browsers and proxies to store pages, exports and API responses.

    A stored page would be shown again after the log-out, or after its records were purged. Static files never
    come here.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        if request.path_info not in PUBLIC and NO_STORE not in response.get("Cache-Control", ""):
            is_api = request.path_info.startswith(API_PREFIX)
            response["Cache-Control"] = NO_STORE if is_api else f"private, {NO_STORE}"
        return response


class PageGZipMiddleware(GZipMiddleware):
    """Compresses HTML. API responses stay as they are: most are small, and compressing them costs time."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not response.get("Content-Type", "").startswith("text/html"):
            return response
        return super().process_response(request, response)


class HeadMiddleware:
    """Answers HEAD like GET, without the body.

    This middleware covers pages, API and admin, whatever methods a view names. It must stand before
    everything that looks at the method.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        is_head = request.method == "HEAD"
        if is_head:
            request.method = "GET"
        response = self.get_response(request)
        if is_head:
            drop_body(response)
        if "GET" in (allowed := response.get("Allow", "").split(", ")):
            response["Allow"] = ", ".join(sorted({*allowed, "HEAD"}))
        return response


def drop_body(response: HttpResponseBase) -> None:
    """Drop the body and keep the headers, Content-Length included. An export is never started."""
    if isinstance(response, StreamingHttpResponse):
        response.streaming_content = ()
    else:
        response.content = b""  # type: ignore[attr-defined]
