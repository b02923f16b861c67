"""Limits on log-ins: checked before any hashing, shared by all web processes, and locking nobody out."""

import threading
from collections.abc import Iterator
from contextvars import Context
from datetime import timedelta
from functools import partial

import pytest
import time_machine
from django.contrib.auth.hashers import MD5PasswordHasher, PBKDF2PasswordHasher, check_password, make_password
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from contextopt.errors import TooManyAttempts
from contextopt.people.logins import PLACES, hashing_room
from contextopt.people.models import Throttle, User
from contextopt.tasks import sweep
from tests import factories
from tests.concurrency import at_once, beside, wait_until

LOG_IN = "/accounts/login/"
DOORS = [LOG_IN, "/admin/login/"]
HERE, THERE = "192.0.2.1", "198.51.100.7"
RIGHT = "correct horse"
BROWSER = Client()


HASHERS = ["contextopt.people.logins.PasswordHasher", "contextopt.people.logins.EarlierPasswordHasher"]


class CountingHasher(MD5PasswordHasher):
    """Counts how many passwords were hashed."""

    count = 0

    def encode(self, password: str, salt: str) -> str:
        CountingHasher.count += 1
        return super().encode(password, salt)


@pytest.fixture(autouse=True)
def hasher(settings) -> type[CountingHasher]:
    settings.PASSWORD_HASHERS = [f"{__name__}.CountingHasher"]
    CountingHasher.count = 0
    return CountingHasher


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    with time_machine.travel(timezone.now(), tick=False) as traveller:
        yield traveller


def log_in(name: str, password: str = "wrong", address: str = HERE, door: str = LOG_IN) -> HttpResponse:
    data = {"username": name, "password": password}
    BROWSER.cookies.clear()
    return BROWSER.post(door, data, REMOTE_ADDR=address)


def fail(times: int, name: str = "olga", address: str = HERE) -> None:
    for _ in range(times):
        assert log_in(name, address=address).status_code == 200


@pytest.mark.parametrize("door", DOORS)
def test_guessing_is_refused_before_anything_is_hashed(door, hasher, owner, clock):
    answers = [log_in("olga", door=door) for _ in range(7)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 2
    before = hasher.count
    refused = log_in("olga", RIGHT, door=door)
    assert (refused.status_code, hasher.count) == (429, before)
    assert int(refused["Retry-After"]) == 30
    html = refused.content.decode()
    assert "Too many attempts" in html
    assert "30 seconds" in html
    assert "Cache-Control" in refused and "no-store" in refused["Cache-Control"]


def test_the_right_password_is_taken_again_after_a_while(owner, clock):
    fail(5)
    assert log_in("olga", RIGHT).status_code == 429
    clock.shift(timedelta(seconds=30))
    assert log_in("olga", RIGHT).status_code == 302
    # The password was right, so the attempt was not counted.
    fail(1)


def test_refused_attempts_do_not_make_the_wait_longer(owner, clock):
    fail(5)
    for _ in range(10):
        assert log_in("olga")["Retry-After"] == "30"


def test_an_address_has_a_limit_over_all_names(owner, clock):
    answers = [log_in(f"user{number}").status_code for number in range(12)]
    assert answers == [200] * 10 + [429] * 2
    assert log_in("olga", address=THERE).status_code == 200


def test_a_name_is_one_however_it_is_written(owner, clock):
    for name in ("olga", "OLGA", "Olga", "ＯLGA", "olgA"):
        fail(1, name)
    assert log_in("olga").status_code == 429


def test_an_account_has_a_limit_over_all_addresses(owner, clock):
    fail_from = [f"203.0.113.{number}" for number in range(31)]
    answers = [log_in("olga", address=address).status_code for address in fail_from]
    assert answers == [200] * 30 + [429]


def test_strangers_do_not_lock_out_whoever_logged_in_from_there_before(owner, clock):
    assert log_in("olga", RIGHT).status_code == 302
    clock.shift(timedelta(days=20))
    for number in range(31):
        log_in("olga", address=f"203.0.113.{number}")
    # Nor can a neighbour behind the same address lock her out.
    for number in range(10):
        log_in(f"user{number}")
    assert log_in("tom").status_code == 429
    assert log_in("olga", address=THERE).status_code == 429
    assert log_in("olga", RIGHT).status_code == 302


def test_colleagues_behind_one_address_all_get_in(team, clock):
    for number in range(15):
        factories.make_user(f"user{number}", team)
        assert log_in(f"user{number}", RIGHT).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_attempts_at_once_are_counted_each(hasher):
    User.objects.create_user("olga", password=RIGHT)
    hasher.count = 0
    data = {"username": "olga", "password": "wrong"}

    def attempt() -> int:
        return Client().post(LOG_IN, data).status_code

    answers = at_once(*[attempt] * 8)
    # If all of them read the clock before the one that is counted first, only four pass at once.
    answers += [attempt(), attempt()]
    assert sorted(answers) == [200] * 5 + [429] * 5
    assert hasher.count == 5


def test_nothing_is_limited_where_nobody_asks_over_http(owner):
    for _ in range(40):
        assert not Client().login(username="olga", password="wrong")
    assert Client().login(username="olga", password=RIGHT)


def test_a_refusal_costs_four_statements_at_most(owner, clock, django_assert_max_num_queries):
    fail(5)
    with django_assert_max_num_queries(4):
        assert log_in("olga").status_code == 429


def test_what_is_over_is_swept(owner, clock):
    fail(3)
    assert Throttle.objects.exists()
    names = "".join(Throttle.objects.values_list("key", flat=True))
    assert "olga" not in names and HERE not in names
    sweep()
    assert Throttle.objects.exists()
    clock.shift(timedelta(minutes=10))
    sweep()
    assert not Throttle.objects.exists()


class TestAddress:
    """Which address a request comes from, as reported by the trusted proxies."""

    def guess(self, forwarded: str, remote: str = "10.0.0.1") -> int:
        data, headers = {"username": "olga", "password": "wrong"}, {"X-Forwarded-For": forwarded}
        return BROWSER.post(LOG_IN, data, headers=headers, REMOTE_ADDR=remote).status_code

    def test_a_header_is_believed_from_nobody_by_default(self, owner, clock):
        answers = [self.guess(f"203.0.113.{number}") for number in range(6)]
        assert answers == [200] * 5 + [429]

    def test_a_trusted_proxy_names_the_client(self, owner, clock, settings):
        settings.TRUSTED_PROXIES = 1
        assert [self.guess("203.0.113.1") for _ in range(6)][-1] == 429
        assert self.guess("203.0.113.2") == 200
        # Entries that the client put in front don't come from the proxy.
        assert self.guess("198.51.100.9, 203.0.113.1") == 429
        assert self.guess("203.0.113.1:50123") == 429

    def test_of_two_proxies_the_outer_one_counts(self, owner, clock, settings):
        settings.TRUSTED_PROXIES = 2
        assert [self.guess("203.0.113.1, 10.0.0.9") for _ in range(6)][-1] == 429
        assert self.guess("198.51.100.9, 203.0.113.1, 10.0.0.9") == 429
        assert self.guess("203.0.113.2, 10.0.0.9") == 200

    @pytest.mark.parametrize("forwarded", ["", "unknown", "203.0.113.1, ", "_hidden"])
    def test_without_an_address_in_the_header_the_socket_counts(self, forwarded, owner, clock, settings):
        settings.TRUSTED_PROXIES = 1
        assert [self.guess(forwarded) for _ in range(6)][-1] == 429
        assert self.guess(forwarded, remote="10.0.0.2") == 200

    def test_a_whole_ipv6_network_is_one_client(self, owner, clock):
        answers = [self.guess("", remote=f"2001:db8:0:1::{number:x}") for number in range(1, 7)]
        assert answers == [200] * 5 + [429]
        assert self.guess("", remote="2001:db8:0:2::1") == 200

    def test_ipv4_inside_ipv6_is_that_ipv4_address(self, owner, clock):
        assert [self.guess("", remote="::ffff:192.0.2.9") for _ in range(6)][-1] == 429
        assert self.guess("", remote="::ffff:192.0.2.10") == 200
        assert self.guess("", remote="192.0.2.9") == 429


@pytest.fixture
def known(owner, clock) -> None:
    """The owner has logged in from here."""
    assert log_in("olga", RIGHT).status_code == 302


@pytest.fixture
def full_room(settings) -> Iterator[None]:
    """All places of strangers where passwords are hashed are taken."""
    is_over = threading.Event()
    # The one whose turn it is stays until the end of the test, and the others wait for it.
    inside = [beside(partial(hash_until, is_over)) for _ in range(PLACES)]
    wait_until(lambda: Context().run(is_full))
    yield
    is_over.set()
    for each in inside:
        each.result(30)


def hash_until(is_over: threading.Event) -> None:
    with hashing_room.enter():
        assert is_over.wait(30)


def is_full() -> bool:
    try:
        hashing_room.check()
    except TooManyAttempts:
        return True
    return False


def test_few_wait_for_their_password_to_be_hashed(owner, clock, full_room):
    answers = [log_in("olga") for _ in range(7)]
    assert {(answer.status_code, answer["Retry-After"]) for answer in answers} == {(429, "2")}
    assert "Many people are logging in at this moment." in answers[0].content.decode()
    # They were not tried, so they do not count.
    assert not Throttle.objects.exists()


def test_whoever_logged_in_from_there_before_may_still_wait(owner, clock, known, full_room):
    assert log_in("tom").status_code == 429
    assert log_in("olga", RIGHT).status_code == 302


@pytest.mark.parametrize("name", HASHERS)
def test_each_hash_takes_a_place(settings, full_room, name):
    settings.PASSWORD_HASHERS = [name]
    with pytest.raises(TooManyAttempts):
        Context().run(make_password, "correct horse")


def test_hashes_of_before_stay_valid_until_the_next_log_in(settings, owner, clock):
    settings.PASSWORD_HASHERS = HASHERS
    old = PBKDF2PasswordHasher().encode("correct horse", "salt", 1)
    assert check_password("correct horse", old)
    assert not check_password("wrong", old)
    User.objects.filter(pk=owner.pk).update(password=old)
    assert log_in("olga", RIGHT).status_code == 302
    owner.refresh_from_db()
    assert owner.password.startswith("scrypt$")
    assert owner.check_password(RIGHT)
