"""The API as a whole: its routers, its OpenAPI description, its documentation page."""

import gzip
import hashlib
import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.middleware.gzip import re_accepts_gzip
from django.utils.cache import get_conditional_response, patch_vary_headers
from django.utils.csp import CSP
from django.views.decorators.csp import csp_override
from django.views.decorators.gzip import gzip_page
from ninja import NinjaAPI, Swagger
from ninja.errors import ValidationError as RequestInvalid
from ninja.errors import ValidationErrorContext
from ninja.openapi.schema import OpenAPISchema
from ninja.openapi.views import openapi_json
from pydantic import TypeAdapter

from contextopt.api import (
    assemblies,
    configs,
    conversations,
    gateway,
    handoffs,
    keys,
    phaselinks,
    phases,
    records,
    replays,
    repositories,
    spaces,
    tasks,
    timelines,
)
from contextopt.api.protocol import problems
from contextopt.api.protocol.idempotency import HEADER, KEY_MAX, WRITES, is_repeatable
from contextopt.api.protocol.problems import Problem
from contextopt.api.protocol.reference import complete, read_reference, refusals_json, refusals_of
from contextopt.api.protocol.transport import JsonBody, guard
from contextopt.assemblies.figures import FIGURES
from contextopt.errors import InvalidInput
from contextopt.inputs import FAULTS_MAX, field_problems

DESCRIPTION = """\
Contextopt decides what goes into a prompt, within a token budget, and logs every decision.

- **Authentication**: send an API key as `Authorization: Bearer KEY` or `X-API-Key: KEY`. A key belongs to one
  team. Items of other teams are reported as not found. A key may be limited to
  some of the team's spaces. Items of other spaces are then not found either, and endpoints for the whole
  team answer 403.
- **Limits**: a key may have a limit of requests per minute. Responses then have `RateLimit` headers, and a
  request over the limit gets status 429 with `Retry-After`.
- **Bodies** are JSON and may be compressed with gzip.
- **Errors** are `application/problem+json` and name each invalid field and its limit.
- **Lists** are paginated: pass `next_cursor` as `cursor` until it is null.
- **Safe retries**: send an `Idempotency-Key` with a write. Repeating the request with the same key returns
  the first response, and the write happens only once.
"""
VERSION = "1.0"
# The page's scripts and styles come from this server. Its bundle sets styles inline.
DOCS_POLICY: dict[str, list[str]] = {
    "default-src": [CSP.SELF],
    "style-src": [CSP.SELF, CSP.UNSAFE_INLINE],
    "img-src": [CSP.SELF, "data:"],
    "object-src": [CSP.NONE],
    "base-uri": [CSP.NONE],
    "frame-ancestors": [CSP.NONE],
}


class ContextApi(NinjaAPI):
    """Adds to every operation what applies to all: error responses, the Idempotency-Key and the reference."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._schemas: dict[str | None, OpenAPISchema] = {}

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        """Return the description, which takes a second to build and never changes once the server runs."""
        if path_prefix not in self._schemas:
            schema = super().get_openapi_schema(path_prefix=path_prefix, path_params=path_params)
            self._complete(schema)
            self._schemas[path_prefix] = schema
        return self._schemas[path_prefix]

    def _complete(self, schema: OpenAPISchema) -> None:
        problem = TypeAdapter(Problem).json_schema(ref_template="#/components/schemas/{model}")
        schema["components"]["schemas"] |= {**problem.pop("$defs", {}), "Problem": problem}
        schema["components"]["responses"] = refusals_json()
        secured = {name for bound in self._get_bound_routers() for name in _repeatable(bound)}
        for methods in schema["paths"].values():
            for method, operation in methods.items():
                _describe(operation, method.upper(), is_repeatable=operation["operationId"] in secured)
        reference = read_reference(self.folders())
        described = {figure.name: figure.describe() for figure in FIGURES if figure.help}
        complete(schema, replace(reference, fields=described | reference.fields))

    def validation_error_from_error_contexts(
        self, error_contexts: list[ValidationErrorContext[Any]]
    ) -> RequestInvalid:
        """Return all faults of a request by name. Raise InvalidInput if there are too many."""
        for context in error_contexts:
            if context.pydantic_validation_error.error_count() > FAULTS_MAX:
                raise InvalidInput(field_problems(context.pydantic_validation_error))
        return super().validation_error_from_error_contexts(error_contexts)

    def folders(self) -> list[Path]:
        """Return the folders of the registered endpoints, where their words and examples are."""
        views = [
            operation.view_func
            for bound in self._get_bound_routers()
            for view in bound.path_operations.values()
            for operation in view.operations
        ]
        files = {inspect.getfile(inspect.unwrap(view)) for view in views}
        return sorted({Path(file).parent for file in files})


def _repeatable(bound: Any) -> list[str]:
    return [
        operation.operation_id or bound.api.get_openapi_operation_id(operation)
        for view in bound.path_operations.values()
        for operation in view.operations
        if is_repeatable(operation.view_func)
    ]


def _describe(operation: dict[str, Any], method: str, *, is_repeatable: bool) -> None:
    operation["responses"] |= refusals_of(operation)
    if method in WRITES and is_repeatable:
        operation["parameters"].append(
            {
                "in": "header",
                "name": HEADER,
                "required": False,
                "description": "Repeating the request with the same key returns the first response.",
                "schema": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": KEY_MAX,
                    "pattern": "^[ -~]+$",
                    "examples": ["ticket-4711"],
                },
            }
        )


class ReadyMade:
    """A view whose answer never changes. Its first visitor makes and compresses it for the whole process."""

    def __init__(self, view: Callable[..., HttpResponse]) -> None:
        self._view = view
        self._made: tuple[bytes, bytes, str] | None = None
        self._lock = Lock()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        plain, packed, etag = self._made or self._make(request)
        is_packed = re_accepts_gzip.search(request.headers.get("Accept-Encoding", "")) is not None
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if is_packed:
            headers["Content-Encoding"] = "gzip"
        response = HttpResponse(packed if is_packed else plain, "application/json", headers=headers)
        patch_vary_headers(response, ["Accept-Encoding"])
        return get_conditional_response(request, etag=etag, response=response) or response

    def _make(self, request: HttpRequest) -> tuple[bytes, bytes, str]:
        with self._lock:
            if self._made is None:
                plain = self._view(request).content
                # Weak, because both forms have it.
                etag = f'W/"{hashlib.sha256(plain).hexdigest()[:32]}"'
                self._made = plain, gzip.compress(plain, mtime=0), etag
        return self._made


def decorate_docs(view: Any) -> Callable[..., HttpResponse]:
    """Return the view of the description, or of the page that shows it, as it is served."""
    return ReadyMade(view) if view.func is openapi_json else gzip_page(csp_override(DOCS_POLICY)(view))


def build_api() -> ContextApi:
    api = ContextApi(
        title="Contextopt",
        version=VERSION,
        description=DESCRIPTION,
        urls_namespace="api",
        openapi_url="/openapi.json",
        docs_url="/docs",
        # No validator, since it runs on another host.
        docs=Swagger(
            settings={"validatorUrl": None, "persistAuthorization": False, "defaultModelsExpandDepth": 0}
        ),
        docs_decorator=decorate_docs,
        parser=JsonBody(),
    )
    api.add_decorator(guard)
    problems.install(api)
    for module in (
        assemblies, replays, spaces, records, configs, phases, phaselinks, tasks, timelines, handoffs,
        repositories, conversations, gateway, keys,
    ):  # fmt: skip
        api.add_router("/v1", module.router)
    return api


api = build_api()
