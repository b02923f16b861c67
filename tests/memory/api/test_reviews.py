"""Review over HTTP."""

import json

import pytest

from contextopt.spaces.models import Space
from memory.review.models import ReviewItem, ReviewSlot
from tests import factories
from tests.contextopt.api.conftest import Caller, fields_of
from tests.memory.factories import make_review
from tests.queries import count_at_2_and_20


@pytest.fixture
def item(space: Space) -> ReviewItem:
    factories.make_record(space)
    return make_review(space)


def test_from_the_queue_to_a_verdict(writer: Caller, item: ReviewItem) -> None:
    reserved = writer.post("/reviews/reserve", {"reviewer": "ann"}).json()
    assert (reserved["item"]["id"], reserved["item"]["is_judged"]) == (item.pk, False)
    assert writer.post("/reviews/reserve", {"reviewer": "ben"}).json() == {
        "item": None,
        "reserved_until": None,
    }
    taken = writer.post("/reviews/reserve", {"reviewer": "ben", "item_id": item.pk})
    assert taken.status_code == 409
    released = [writer.post(f"/reviews/{item.pk}/release", {"reviewer": "ann"}).json() for _ in range(2)]
    assert released == [{"released": True}, {"released": False}]
    given = writer.post(f"/reviews/{item.pk}/verdict", {"reviewer": "ben", "verdict": "model", "note": "So."})
    assert given.json()["item"]["state"] == "done"
    assert [row["reviewer"] for row in given.json()["given"]] == ["rater:ben"]


def test_a_key_judges_as_itself(writer: Caller, item: ReviewItem) -> None:
    writer.post(f"/reviews/{item.pk}/verdict", {"verdict": "model"})
    assert ReviewSlot.objects.get().reviewer == "key:write-key"
    assert writer.get("/reviews", state="done").json()["items"][0]["is_judged"]


def test_others_verdicts_are_hidden(api: Caller, reader: Caller, item: ReviewItem) -> None:
    api.patch("/reviews/rules", {"verdicts_wanted": 2})
    api.post(f"/reviews/{item.pk}/verdict", {"reviewer": "ann", "verdict": "model"})
    assert reader.get(f"/reviews/{item.pk}").json()["given"] == []
    assert reader.get(f"/reviews/{item.pk}", reviewer="ann").json()["given"] != []
    assert b"".join(reader.get("/reviews/export")) == b""
    assert reader.get("/reviews/summary").json()["configs"] == []
    api.post(f"/reviews/{item.pk}/verdict", {"reviewer": "ben", "verdict": "other"})
    rows = [json.loads(line) for line in b"".join(reader.get("/reviews/export")).splitlines()]
    assert [row["verdict"] for row in rows] == ["model", "other"]
    csv = b"".join(reader.get("/reviews/export", format="csv")).decode().splitlines()
    assert (csv[0].split(",")[0], len(csv)) == ("item_id", 3)
    summary = reader.get("/reviews/summary").json()
    assert (summary["waiting"], summary["done"], summary["agreement_items"]) == (0, 1, 1)
    assert summary["agreement"] == pytest.approx(0)
    assert summary["configs"][0]["counts"] == {"model": 1, "other": 1}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "verdict"), ({"verdict": "bad"}, "verdict"), ({"verdict": "model", "note": "a\x00"}, "note"),
        ({"verdict": "model", "record_ids": [0]}, "record_ids.0"), ({"verdict": "model", "x": 1}, "x"),
        ({"verdict": "model", "record_ids": [2**62]}, "record_ids"),
    ],
)  # fmt: skip
def test_bad_input(body: dict[str, object], field: str, writer: Caller, item: ReviewItem) -> None:
    response = writer.post(f"/reviews/{item.pk}/verdict", body)
    assert response.status_code == 422
    assert fields_of(response) == {field}


def test_an_empty_name_is_nobody_to_assign(api: Caller, item: ReviewItem) -> None:
    assert fields_of(api.post(f"/reviews/{item.pk}/assign", {"username": ""})) == {"username"}


def test_bad_rules(api: Caller) -> None:
    assert fields_of(api.patch("/reviews/rules", {"sample_share": 1.1})) == {"sample_share"}
    assert fields_of(api.patch("/reviews/rules", {"verdicts_wanted": None})) == {"verdicts_wanted"}
    assert api.patch("/reviews/rules", {"sample_share": 0.1}).json() == {
        "takes_disliked": True, "sample_share": 0.1, "verdicts_wanted": 1
    }  # fmt: skip


def test_the_list_asks_as_often_for_twenty_as_for_two(reader: Caller, space: Space) -> None:
    reader.get("/me")
    # the key; the items
    assert count_at_2_and_20(lambda: reader.get("/reviews"), lambda: make_review(space)) == [2, 2]
    assert len(reader.get("/reviews").json()["items"]) == 20
