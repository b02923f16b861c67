"""Reading a prompt holds up neither the streams nor the other prompts."""

import asyncio
from typing import cast

import pytest

from contextopt.gateway.admission import Admission, load_admission
from contextopt.gateway.deciders import Deciders
from contextopt.gateway.exchanges import Exchange
from contextopt.gateway.models import Protocol
from contextopt.gateway.preparation import Preparation
from contextopt.models import Scope
from contextopt.people.models import hash_key
from tests import factories
from tests.concurrency import in_own_loop


@pytest.fixture
def admission(db: None) -> Admission:
    """A key without a space, so that its prompts are read and go on."""
    _, secret = factories.make_key(factories.make_team(), Scope.WRITE)
    admission = load_admission(hash_key(secret), "")
    assert admission is not None
    return admission


async def turns_of_the_loop(exchange: Exchange, body: bytes) -> int:
    """Prepare a prompt, and return how often the loop could do something else meanwhile."""
    # Without a space, nothing is decided.
    preparation = Preparation(cast("Deciders", None))
    prepared = asyncio.create_task(preparation.prepare(exchange, body, ""))
    turns = 0
    while not prepared.done():
        turns += 1
        await asyncio.sleep(0)
    assert prepared.result() == body
    return turns


def prompt_of(part: bytes, times: int) -> bytes:
    return b'{"messages":[' + part * times + b'{"role":"user","content":"x"}]}'


@pytest.mark.parametrize(
    ("body", "is_read_at_once"),
    [
        (prompt_of(b"{},", 100), True),
        (prompt_of(b'"' + b"word, " * 10_000 + b'",', 1), True),
        (prompt_of(b"{},", 10_000), False),
        (prompt_of(b'"' + b"word, " * 100_000 + b'",', 1), False),
    ],
)
def test_only_what_takes_no_time_is_read_on_the_loop(
    admission: Admission, body: bytes, is_read_at_once: bool
) -> None:
    turns = in_own_loop(turns_of_the_loop(Exchange(admission, Protocol.CHAT), body))
    assert (turns < 10) is is_read_at_once
