import hashlib
from datetime import timedelta

import pytest

from contextopt.assemblies.models import Assembly, AssemblyPayload
from tests import factories
from tests.contextopt.api.conftest import fields_of

NOW = factories.NOW.isoformat()


def ids(response) -> list[int]:
    assert response.status_code == 200, response.content
    return [item["id"] for item in response.json()["items"]]


def test_create(api, space):
    kept = factories.make_record(space, title="Kept", source="wiki", external_id="7")
    response = api.post(
        "/assemblies",
        {
            "space": "support",
            "as_of": NOW,
            "conversation": "c-1",
            "model": "gpt",
            "recency_weight": 0.5,
            "window_days": 30,
        },
    )
    assert response.status_code == 201
    assembly = response.json()
    assert response["Location"] == f"/api/v1/assemblies/{assembly['id']}"
    assert assembly["space"] == "support"
    assert assembly["as_of"] == api.get(f"/assemblies/{assembly['id']}").json()["as_of"]
    assert assembly["overrides"] == {"recency_weight": "0.5", "window_days": 30}
    assert [entry["id"] for entry in assembly["included"]] == [kept.pk]
    assert assembly["included"][0]["source"] == "wiki"
    assert "Kept" in assembly["text"]
    digest = hashlib.sha256(assembly["text"].encode()).hexdigest()
    assert assembly["certificate"]["sha256"] == digest
    assert assembly["stats"]["tokens_used"] == assembly["certificate"]["tokens"]
    assert Assembly.objects.get().actor == "key:admin-key"


@pytest.mark.parametrize("stage", [2, 3, 4])
def test_stages(api, space, stage):
    factories.make_record(space)
    response = api.post("/assemblies", {"space": "support", "as_of": NOW, "stage": stage})
    assert response.status_code == 201
    assert len(response.json()["included"]) == (0 if stage == 2 else 1)


@pytest.mark.parametrize("rows", [2, 200])
def test_create_takes_four_statements(api, space, rows, django_assert_num_queries):
    for index in range(min(rows, 30)):
        factories.make_record(space, date=factories.NOW - timedelta(hours=index))
    api.get("/me")
    with django_assert_num_queries(4):  # the key, the space, the candidates, the log
        assert api.post("/assemblies", {"space": "support", "as_of": NOW}).status_code == 201


def test_missing_space(api, space):
    response = api.post("/assemblies", {"space": "elsewhere"})
    assert response.status_code == 404
    assert not Assembly.objects.exists()


def test_preview_is_the_same_and_not_logged(api, space):
    factories.make_record(space)
    asked = {"space": "support", "as_of": NOW}
    preview = api.post("/assemblies/preview", asked).json()
    assert preview["id"] is None
    assert not Assembly.objects.exists()
    assert preview["text"] == api.post("/assemblies", asked).json()["text"]


def test_read(api, space):
    record = factories.make_record(space)
    made = factories.make_assembly(space)
    assembly = api.get(f"/assemblies/{made.id}").json()
    assert assembly["text"] == made.text
    assert assembly["ledger"]["entries"][0]["id"] == record.pk
    assert assembly["config"]["version"] == assembly["config_version"] == 1
    assert assembly["allocation"] == {
        "total": made.allocation.total,
        "system": made.allocation.system,
        "history": made.allocation.history,
        "context": made.allocation.context,
        "response": made.allocation.response,
    }


def test_read_missing(api):
    assert api.get("/assemblies/999999").status_code == 404


def test_verification(api, space):
    factories.make_record(space)
    made = factories.make_assembly(space)
    verification = api.get(f"/assemblies/{made.id}/verification").json()
    assert verification == {"id": made.id, "ok": True, "differences": []}


def test_verification_finds_a_changed_text(api, space):
    made = factories.make_assembly(space)
    AssemblyPayload.objects.update(text="Something else\n")
    verification = api.get(f"/assemblies/{made.id}/verification").json()
    assert not verification["ok"]
    assert {"tokens_after", "sha256"} <= {item["figure"] for item in verification["differences"]}


class TestList:
    def test_newest_first_in_numbers(self, api, space):
        old = factories.make_assembly(space)
        factories.make_record(space)
        new = factories.make_assembly(space)
        response = api.get("/assemblies")
        assert ids(response) == [new.id, old.id]
        row, empty = response.json()["items"]
        assert row["tokens_saved"] == row["tokens_before"] - row["tokens_after"]
        assert (row["not_counted"], row["utilisation"]) == ("", row["tokens_after"] / row["tokens_available"])
        assert (empty["tokens_saved"], empty["not_counted"]) == (None, "the context is empty")
        assert empty["tokens_before"] is not None
        assert "text" not in row

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"space": "other"}, {"other"}),
            ({"space": "missing"}, set()),
            ({"stage": 2}, {"two"}),
            ({"conversation": "truncated"}, {"truncated"}),
            ({"truncated": "true"}, {"truncated"}),
            ({"empty": "true"}, {"other"}),
            ({"empty": "false", "stage": 2}, {"two"}),
            ({"warning": "nothing_relevant"}, set()),
            ({"until": "2026-01-01T00:00:00Z"}, {"old"}),
            ({"kind": "phase"}, set()),
        ],
        ids=str,
    )
    def test_filters(self, api, team, space, query, expected):
        for _ in range(3):
            factories.make_record(space)
        factories.make_assembly(factories.make_space(team, slug="other"), conversation="other")
        factories.make_assembly(space, conversation="two", stage=2)
        factories.make_assembly(space, conversation="truncated", max_records=1)
        factories.make_assembly(
            space, conversation="old", created_at=factories.NOW.replace(year=2025), max_records="all"
        )
        response = api.get("/assemblies", **query)
        assert {row["conversation"] for row in response.json()["items"]} == expected

    def test_by_hash(self, api, space):
        made = factories.make_assembly(space)
        factories.make_assembly(space, stage=2)
        assert made.id in ids(api.get("/assemblies", sha256=made.certificate.sha256))

    def test_pages(self, api, space):
        made = [factories.make_assembly(space).id for _ in range(5)]
        first = api.get("/assemblies", limit=2).json()
        second = api.get("/assemblies", limit=2, cursor=first["next_cursor"]).json()
        third = api.get("/assemblies", limit=2, cursor=second["next_cursor"]).json()
        assert [item["id"] for page in (first, second, third) for item in page["items"]] == made[::-1]
        assert third["next_cursor"] is None

    @pytest.mark.parametrize("rows", [2, 20])
    def test_queries(self, api, space, rows, django_assert_num_queries):
        for _ in range(rows):
            factories.make_assembly(space)
        api.get("/me")
        with django_assert_num_queries(2):  # the key, the assemblies with space and config
            assert len(ids(api.get("/assemblies"))) == rows


class TestBatch:
    def test_each_query_is_answered_by_itself(self, api, space):
        factories.make_record(space)
        queries = [{"id": "a"}, {"id": "b", "system_tokens": 200_000}, {"id": "c", "as_of": "2026-06-16"}]
        response = api.post(
            "/assemblies/batch", {"space": "support", "total_tokens": 5_000, "queries": queries}
        )
        assert response.status_code == 200
        outcome = response.json()
        assert (outcome["assembled"], outcome["rejected"]) == (2, 1)
        assert [row["id"] for row in outcome["results"]] == ["a", "b", "c"]
        assert outcome["results"][1]["errors"][0]["field"] == "total_tokens"
        assert outcome["results"][2]["assembly"]["as_of"].startswith("2026-06-16")
        assert Assembly.objects.count() == 2

    def test_a_query_has_settings_of_its_own(self, api, space):
        factories.make_record(space, title="Queue stuck")
        queries = [
            {"id": "a", "query": "queue", "as_of": "2026-06-20"},
            {"id": "b", "stage": 2, "as_of": "2998-12-30T23:59:59-12:00"},
            {"id": "c", "query": "", "max_records": "all"},
        ]
        outcome = api.post(
            "/assemblies/batch", {"space": "support", "query": "all", "queries": queries}
        ).json()
        assert [row["assembly"]["stage"] for row in outcome["results"]] == [5, 2, 4]
        assert "Queue stuck" in outcome["results"][0]["assembly"]["text"]

    @pytest.mark.parametrize("queries", [[], [{"id": "x"}] * 101, None], ids=lambda q: str(len(q or "")))
    def test_size(self, api, space, queries):
        response = api.post("/assemblies/batch", {"space": "support", "queries": queries})
        assert response.status_code == 422
        assert fields_of(response) == {"queries"}

    def test_field_of_a_query_is_named(self, api, space):
        data = {"space": "support", "queries": [{"id": "a"}, {"id": "b", "as_of": "soon"}]}
        assert fields_of(api.post("/assemblies/batch", data)) == {"queries.1.as_of"}

    def test_missing_space(self, api):
        assert api.post("/assemblies/batch", {"space": "x", "queries": [{"id": "a"}]}).status_code == 404


def test_a_share_of_the_models_window(api, space):
    factories.make_record(space, title="Kept")
    body = {"space": "support", "model": "gpt-4", "window_share": 0.1}
    assert api.post("/assemblies", body).json()["allocation"]["context"] == 819
    refused = [
        ({"model": "nobody-9"}, "model"), ({"model": ""}, "model"),
        ({"window_share": 1.5}, "window_share"), ({"window_share": -0.1}, "window_share"),
    ]  # fmt: skip
    for change, field in refused:
        response = api.post("/assemblies", body | change)
        assert response.status_code == 422
        assert fields_of(response) == {field}
    batch = api.post(
        "/assemblies/batch", body | {"queries": [{"id": "1", "query": "x", "model": "nobody-9"}]}
    )
    assert batch.json()["results"][0]["errors"][0]["field"] == "model"
