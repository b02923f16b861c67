"""The gateway as an ASGI application. Prompts pass through it to their models, and answers back."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from urllib.parse import unquote

from django.conf import settings
from django.utils import timezone

from contextopt.asgitypes import BodyTooSlow, Receive, Scope, Send
from contextopt.gateway.admission import Admission, Gate, Refused
from contextopt.gateway.deciders import Deciders
from contextopt.gateway.modelanswers import AnswerCopy
from contextopt.gateway.models import Outcome, Protocol, Reason
from contextopt.gateway.preparation import Arrival, Preparation, Prepared
from contextopt.gateway.promptlog import Log, RequestJob
from contextopt.gateway.relay import (
    Call,
    ClientGoneError,
    Headers,
    KeysDifferError,
    LoopError,
    NoUpstreamError,
    Passage,
    Relayed,
    forwarded_headers,
    open_connections,
    upstream_url,
)
from contextopt.telemetry import begin_exchange

HEALTH_PATH = "/healthz"
TURN_SECONDS = 1.0
ERROR_KINDS = {
    "unauthenticated": "authentication_error",
    "forbidden": "permission_error",
    "too_many": "rate_limit_error",
    "unavailable": "api_error",
}


class Gateway:
    """Serves all requests of this process.

    `decider` names the module of the processes that decide on contexts. `turn` is called every second, as
    long as the event loop turns.
    """

    def __init__(self, decider: str, turn: Callable[[], None]) -> None:
        self._turn = turn
        self._gate = Gate()
        self._client = open_connections()
        self._log = Log()
        self._deciders = Deciders(decider)
        self._preparation = Preparation(self._deciders)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(Call(scope, receive, send))

    async def _live(self, receive: Receive, send: Send) -> None:
        turning = asyncio.create_task(self._keep_turning())
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._log.start()
                if settings.LLM_BASE_URL or settings.ANTHROPIC_BASE_URL:
                    await self._preparation.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._log.close()
                await self._client.aclose()
                self._deciders.close()
                turning.cancel()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _keep_turning(self) -> None:
        while True:
            self._turn()
            await asyncio.sleep(TURN_SECONDS)

    async def _serve(self, call: Call) -> None:
        if call.path == HEALTH_PATH:
            await call.answer(200, {"status": "ok"})
            return
        # The path has to stay below /v1/ if the upstream resolves dot segments.
        if not call.path.startswith("/v1/") or {".", ".."}.intersection(unquote(call.path).split("/")):
            await call.refuse(404, "not_found_error", "The gateway serves paths that begin with /v1/.")
            return
        try:
            headers = forwarded_headers(call.scope["headers"])
            is_in_path, slug = bool(call.path_key), call.header("x-contextopt-space")
            admission = await self._gate.admit(call.key, slug, call.address, is_in_path=is_in_path)
            url = upstream_url(call.path, call.scope["query_string"], is_anthropic=call.is_anthropic)
        except Refused as error:
            after = [(b"retry-after", str(error.retry_after).encode())] if error.retry_after else []
            kind, can_retry = ERROR_KINDS[error.kind], error.can_retry
            await call.refuse(error.status, kind, error.message, after, can_retry=can_retry)
        except KeysDifferError as error:
            await call.refuse(400, "invalid_request_error", str(error))
        except LoopError as error:
            await call.refuse(508, "api_error", str(error))
        except NoUpstreamError as error:
            await call.refuse(502, "api_error", str(error))
        else:
            if call.protocol is not None:
                await self._pass_prompt(call, url, headers, admission, call.protocol)
            elif call.counted is not None and not call.is_encoded:
                await self._pass_count(call, url, headers, admission, call.counted)
            else:
                await Passage(call, url, headers, call.stream() if call.has_body else b"").relay(self._client)

    async def _pass_count(
        self, call: Call, url: str, headers: Headers, admission: Admission, protocol: Protocol
    ) -> None:
        """Forward a prompt to have its tokens counted, with the context that it would get. Log nothing."""
        try:
            body = await call.read()
        except (ClientGoneError, BodyTooSlow) as error:
            await call.refuse_body(error)
            return
        if body is None:
            await Passage(call, url, headers, call.stream()).relay(self._client)
            return
        arrival = Arrival(
            admission, protocol, url, len(body), timezone.now(), session=call.session, is_count=True
        )
        given = call.header("x-contextopt-conversation")
        sent, prepared = await self._preparation.prepare(arrival, body, given)
        # The context that is counted has no number, since it is not logged.
        await Passage(call, url, headers, sent, prepared.headers[:1]).relay(self._client)

    async def _pass_prompt(
        self, call: Call, url: str, headers: Headers, admission: Admission, protocol: Protocol
    ) -> None:
        created_at = timezone.now()
        # The caller's trace headers, which are also forwarded unchanged.
        traces = {name: call.header(name) for name in ("traceparent", "tracestate")}
        opened = begin_exchange({name: value for name, value in traces.items() if value})
        try:
            body = await call.read()
        except (ClientGoneError, BodyTooSlow) as error:
            await call.refuse_body(error)
            return
        size = len(body) if body is not None else int(call.header("content-length") or 0)
        arrival = Arrival(admission, protocol, url, size, created_at, opened, call.session)
        sent: bytes | AsyncIterator[bytes]
        if body is None:
            sent, prepared = call.stream(), Prepared(reason=Reason.TOO_LARGE)
        elif call.is_encoded:
            sent, prepared = body, Prepared(reason=Reason.COMPRESSED)
        else:
            given = call.header("x-contextopt-conversation")
            sent, prepared = await self._preparation.prepare(arrival, body, given)
        added_ms = arrival.ms_until(time.perf_counter())
        answer, outcome = AnswerCopy(), None
        try:
            passage = Passage(call, url, headers, sent, prepared.headers, answer)
            outcome = await passage.relay(self._client)
        finally:
            # Without an outcome, it failed here.
            outcome = outcome or (Outcome.BROKEN if answer.status_code else Outcome.UNREACHABLE)
            first = None if answer.first_byte_at is None else arrival.ms_until(answer.first_byte_at)
            relayed = Relayed(outcome, answer, added_ms, first, arrival.ms_until(time.perf_counter()))
            self._log.put(RequestJob(arrival, prepared, relayed, self._deciders))
