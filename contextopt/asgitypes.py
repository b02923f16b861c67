"""The types of ASGI, which are what a server gives to an application, and a deadline for bodies."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

type Scope = dict[str, Any]
type Receive = Callable[[], Awaitable[Mapping[str, Any]]]
type Send = Callable[[Mapping[str, Any]], Awaitable[None]]

# Slower than any line on which people upload files.
BODY_BYTES_PER_SECOND = 8_000
BODY_TOO_SLOW = "The body did not arrive in time."


class BodyTooSlow(Exception):
    """The client keeps us waiting for its body. Answer 408 and close the connection."""


@dataclass
class Patience:
    """The seconds that we still wait for a body. Waiting uses them up, and each byte gives some back."""

    most: float
    left: float

    def spend(self, seconds: float, *, received: int) -> None:
        self.left = min(self.left - seconds + received / BODY_BYTES_PER_SECOND, self.most)


def with_deadline(receive: Receive) -> Receive:
    """Return a `receive` that raises BodyTooSlow when the body stalls or trickles.

    Only the time in which someone waits for the body counts. After the body, a disconnect may take any time.
    """
    patience = Patience(settings.BODY_STALL_SECONDS, settings.BODY_STALL_SECONDS)
    is_whole = False

    async def receiving() -> Mapping[str, Any]:
        nonlocal is_whole
        if is_whole:
            return await receive()
        began = time.monotonic()
        try:
            async with asyncio.timeout(patience.left):
                message = await receive()
        except TimeoutError:
            raise BodyTooSlow from None
        patience.spend(time.monotonic() - began, received=len(message.get("body", b"")))
        is_whole = not message.get("more_body", False)
        return message

    return receiving
