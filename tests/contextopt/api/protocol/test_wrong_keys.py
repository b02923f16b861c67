"""Wrong keys are limited by the caller's address. Valid keys never wait for them."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone

from contextopt.people.models import Throttle
from tests.contextopt.api.conftest import Caller


@pytest.fixture(autouse=True)
def clock(db):
    with time_machine.travel(timezone.now(), tick=False) as traveller:
        yield traveller


def test_guessing_keys_is_refused(api, clock):
    answers = [Caller(f"ctx_{number}").get("/me").status_code for number in range(32)]
    assert answers == [401] * 30 + [429] * 2
    refused = Caller("ctx_x").get("/me")
    assert refused["Content-Type"] == "application/problem+json"
    assert refused["Retry-After"] == "2"
    problem = refused.json()
    assert problem["type"] == "urn:contextopt:problem:too-many-attempts"
    assert "2 seconds" in problem["detail"]
    # A valid key from the same address still works.
    assert api.get("/me").status_code == 200
    clock.shift(timedelta(seconds=2))
    assert Caller("ctx_x").get("/me").status_code == 401


def test_either_header_counts_and_both_count_once(team):
    for _ in range(30):
        answer = Caller("ctx_a").client.get("/api/v1/me", headers={"X-API-Key": "ctx_b"})
        assert answer.status_code == 401
    assert Caller().client.get("/api/v1/me", headers={"X-API-Key": "ctx_b"}).status_code == 429


def test_a_valid_key_beside_a_wrong_one_is_not_counted(api):
    for _ in range(31):
        answer = Caller("ctx_wrong").client.get("/api/v1/me", headers={"X-API-Key": api.secret})
        assert answer.status_code == 200
    assert not Throttle.objects.exists()


def test_without_a_key_nothing_is_counted(nobody, django_assert_num_queries):
    with django_assert_num_queries(0):
        for _ in range(40):
            assert nobody.get("/me").status_code == 401


def test_a_wrong_key_costs_three_statements_and_two_once_refused(django_assert_num_queries):
    caller = Caller("ctx_wrong")
    with django_assert_num_queries(3):  # the key, the attempts so far, this one
        caller.get("/me")
    for _ in range(30):
        caller.get("/me")
    with django_assert_num_queries(2):  # the key, the attempts so far
        assert caller.get("/me").status_code == 429
