"""Reading a prompt holds up neither the streams nor the other prompts."""

import threading
from typing import cast

import pytest
from django.utils import timezone

from contextopt.gateway.admission import Admission, load_admission
from contextopt.gateway.deciders import Deciders
from contextopt.gateway.models import Protocol
from contextopt.gateway.preparation import Arrival, Preparation
from contextopt.people.models import Scope, hash_key
from tests import factories
from tests.concurrency import in_own_loop


@pytest.fixture
def admission(db: None) -> Admission:
    """A key without a space, so that its prompts are read and go on."""
    _, secret = factories.make_key(factories.make_team(), Scope.WRITE)
    admission = load_admission(hash_key(secret), "")
    assert admission is not None
    return admission


async def is_read_in_thread(admission: Admission, body: bytes) -> bool:
    # Without a space, nothing is decided.
    preparation = Preparation(cast("Deciders", None))
    before = threading.enumerate()
    arrival = Arrival(admission, Protocol.CHAT, "", len(body), timezone.now())
    forwarded, _ = await preparation.prepare(arrival, body, "")
    assert forwarded == body
    return any(
        thread.name.startswith("gateway-reading") and thread not in before for thread in threading.enumerate()
    )


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
    assert in_own_loop(is_read_in_thread(admission, body)) is not is_read_at_once
