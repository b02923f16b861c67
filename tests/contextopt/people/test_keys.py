"""The secret of a request, and limits of requests per minute with a clock of the test's own."""

import pytest
from django.http.request import HttpHeaders

from contextopt.errors import TooManyRequests
from contextopt.people.keys import SECOND, Allowance, Meter, read_secret


@pytest.mark.parametrize(
    ("sent", "secret"),
    [
        ({"AUTHORIZATION": "Bearer ctx_a"}, "ctx_a"),
        ({"AUTHORIZATION": "bearer ctx_a"}, "ctx_a"),
        ({"AUTHORIZATION": "  BEARER   ctx_a  "}, "ctx_a"),
        ({"X_API_KEY": "ctx_b"}, "ctx_b"),
        ({"X_API_KEY": " ctx_b "}, "ctx_b"),
        ({"AUTHORIZATION": "Bearer ctx_a", "X_API_KEY": "ctx_b"}, "ctx_a"),
        ({"AUTHORIZATION": "Basic ctx_a", "X_API_KEY": "ctx_b"}, "ctx_b"),
        ({"AUTHORIZATION": "Bearer", "X_API_KEY": "ctx_b"}, "ctx_b"),
        ({"AUTHORIZATION": "Bearer  ", "X_API_KEY": "ctx_b"}, "ctx_b"),
        ({"AUTHORIZATION": "Bearerctx_a"}, ""),
        ({"AUTHORIZATION": "ctx_a"}, ""),
        ({"AUTHORIZATION": "Basic ctx_a"}, ""),
        ({"AUTHORIZATION": "Bearer "}, ""),
        ({"AUTHORIZATION": "", "X_API_KEY": ""}, ""),
        ({}, ""),
    ],
)
def test_read_secret(sent: dict[str, str], secret: str) -> None:
    headers = HttpHeaders({f"HTTP_{name}": value for name, value in sent.items()})
    assert read_secret(headers) == secret


class Clock:
    now = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize("limit", [1, 3, 7, 60, 601, 1_000_000])
def test_a_minutes_requests_at_once_then_one_at_a_time(clock: Clock, limit: int) -> None:
    meter = Meter(clock)
    many = min(limit, 2_000)
    left = [meter.take(7, limit).remaining for _ in range(many)]
    assert left == [limit - sent for sent in range(1, many + 1)]
    if many < limit:
        return
    with pytest.raises(TooManyRequests) as refused:
        meter.take(7, limit)
    assert (refused.value.limit, refused.value.reset) == (limit, 60)
    assert 1 <= refused.value.seconds <= 60
    clock.now += refused.value.seconds * SECOND
    meter.take(7, limit)


def test_a_refused_request_is_not_counted_and_keys_do_not_share(clock: Clock) -> None:
    meter = Meter(clock)
    meter.take(1, 1)
    for _ in range(10):
        with pytest.raises(TooManyRequests):
            meter.take(1, 1)
    assert meter.take(2, 1).remaining == 0
    clock.now += 60 * SECOND
    assert meter.take(1, 1).remaining == 0


def test_a_pause_fills_the_bucket_and_no_more(clock: Clock) -> None:
    meter = Meter(clock)
    meter.take(1, 60)
    clock.now += 3_600 * SECOND
    assert meter.take(1, 60) == Allowance(60, 59, 1)


def test_headers_of_the_draft_and_of_its_earlier_versions() -> None:
    assert Allowance(60, 12, 48).headers() == {
        "RateLimit-Policy": '"key";q=60;w=60',
        "RateLimit": '"key";r=12;t=48',
        "RateLimit-Limit": "60",
        "RateLimit-Remaining": "12",
        "RateLimit-Reset": "48",
    }
