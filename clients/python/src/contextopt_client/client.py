"""The two clients. Only waiting and sending differ; the steps of a call and the operations are shared."""

import asyncio
import os
import time
from types import TracebackType
from typing import Any, Self

import httpx2

from contextopt_client.calls import Call, Outcome, Wait, follow, headers_of
from contextopt_client.errors import ContextoptError
from contextopt_client.operations import AsyncOperations, Operations

VERSION = "0.2.0"
ADDRESS = "http://127.0.0.1:8000"
TIMEOUT_SECONDS = 10.0
RETRIES = 3


def _settings(url: str | None, key: str | None, timeout: float) -> dict[str, Any]:
    """Return the arguments of the HTTP client.

    Raises:
        ContextoptError: there is no key.
    """
    key = key or os.environ.get("CONTEXTOPT_KEY")
    if not key:
        raise ContextoptError("Pass a key, or set CONTEXTOPT_KEY.")
    return {
        "base_url": url or os.environ.get("CONTEXTOPT_URL") or ADDRESS,
        "headers": {"Authorization": f"Bearer {key}", "User-Agent": f"contextopt-client/{VERSION}"},
        "timeout": timeout,
    }


class Contextopt(Operations):
    """The client for threads. Address and key default to CONTEXTOPT_URL and CONTEXTOPT_KEY.

    `timeout` is in seconds for each attempt. `retries` counts the attempts after the first.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
    ) -> None:
        self._http = httpx2.Client(**_settings(url, key, timeout))
        self._retries = retries

    def call(self, call: Call) -> Any:
        headers, steps = headers_of(call), follow(call, self._retries)
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return end.value
            if isinstance(step, Wait):
                time.sleep(step.seconds)
                outcome = None
            else:
                outcome = self._send(step, headers)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, call: Call, headers: dict[str, str]) -> Outcome:
        try:
            return self._http.request(call.method, call.path, json=call.body, headers=headers)
        except httpx2.RequestError as error:
            return error


class AsyncContextopt(AsyncOperations):
    """The client for asyncio. It takes the same arguments."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        retries: int = RETRIES,
    ) -> None:
        self._http = httpx2.AsyncClient(**_settings(url, key, timeout))
        self._retries = retries

    async def call(self, call: Call) -> Any:
        headers, steps = headers_of(call), follow(call, self._retries)
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return end.value
            if isinstance(step, Wait):
                await asyncio.sleep(step.seconds)
                outcome = None
            else:
                outcome = await self._send(step, headers)

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _send(self, call: Call, headers: dict[str, str]) -> Outcome:
        try:
            return await self._http.request(call.method, call.path, json=call.body, headers=headers)
        except httpx2.RequestError as error:
            return error
