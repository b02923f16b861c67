"""Bodies have a deadline that moves with what arrives."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from contextopt.asgitypes import BODY_BYTES_PER_SECOND, BodyTooSlow, Patience, with_deadline
from tests.concurrency import in_own_loop


def test_a_pause_uses_the_seconds_up() -> None:
    patience = Patience(20, 20)
    patience.spend(8, received=1)
    patience.spend(13, received=1)
    assert patience.left < 0


def test_a_steady_upload_may_take_any_time() -> None:
    patience = Patience(20, 20)
    for _ in range(3_600):
        patience.spend(1, received=BODY_BYTES_PER_SECOND)
    assert patience.left == 20


def test_a_fast_beginning_saves_no_seconds_up() -> None:
    patience = Patience(20, 20)
    patience.spend(1, received=32 * 2**20)
    assert patience.left == 20


def test_a_body_that_stalls_is_given_up(settings: Any) -> None:
    settings.BODY_STALL_SECONDS = 1
    messages = asyncio.Queue[Mapping[str, Any]]()
    messages.put_nowait({"type": "http.request", "body": b"{", "more_body": True})

    async def story() -> None:
        receive = with_deadline(messages.get)
        assert (await receive())["body"] == b"{"
        with pytest.raises(BodyTooSlow):
            await receive()

    in_own_loop(story())


def test_after_the_body_a_client_may_stay_silent(settings: Any) -> None:
    settings.BODY_STALL_SECONDS = 1
    messages = asyncio.Queue[Mapping[str, Any]]()
    messages.put_nowait({"type": "http.request", "body": b"{}"})

    async def story() -> Mapping[str, Any]:
        receive = with_deadline(messages.get)
        await receive()
        asyncio.get_running_loop().call_later(1.5, messages.put_nowait, {"type": "http.disconnect"})
        return await receive()

    assert in_own_loop(story()) == {"type": "http.disconnect"}
