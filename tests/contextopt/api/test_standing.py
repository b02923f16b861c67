import pytest

from contextopt.agents.inputs import StandingDocumentIn
from contextopt.agents.standingdocuments import DOCUMENTS_MAX, StandingDocument, attach_document
from contextopt.people.models import AuditEvent
from tests.contextopt.api.conftest import fields_of

STYLE = {"repository": "shop", "title": "Style", "content": "Two spaces."}


def test_post(api):
    response = api.post("/standing-documents", STYLE)
    answer = response.json()
    assert response.status_code == 201
    assert response["Location"] == f"/api/v1/standing-documents/{answer['id']}"
    assert {name: answer[name] for name in STYLE} == STYLE
    assert api.get(f"/standing-documents/{answer['id']}").json() == answer
    event = AuditEvent.objects.get()
    assert (event.action, event.subject, event.actor) == (
        "document.attached",
        "Style (shop)",
        "key:admin-key",
    )


def test_the_same_title_is_replaced(api):
    first = api.post("/standing-documents", STYLE).json()
    again = api.post("/standing-documents", STYLE | {"content": "Tabs."})
    assert again.status_code == 200
    assert (again.json()["id"], again.json()["content"]) == (first["id"], "Tabs.")
    api.post("/standing-documents", STYLE | {"repository": "other"})
    assert StandingDocument.objects.count() == 2
    assert api.post("/standing-documents", STYLE | {"content": "Tabs."}).json() == again.json()
    changed = AuditEvent.objects.get(action="document.changed")
    assert (changed.before, changed.after) == ({"content": "Two spaces."}, {"content": "Tabs."})


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"title": " "}, "title"),
        ({"title": "x" * 201}, "title"),
        ({"content": ""}, "content"),
        ({"content": "x" * 100_001}, "content"),
        ({"repository": ""}, "repository"),
        ({"order": 1}, "order"),
    ],
)
def test_post_refuses(api, change, field):
    response = api.post("/standing-documents", STYLE | change)
    assert response.status_code == 422
    assert fields_of(response) == {field}
    assert not StandingDocument.objects.exists()


def test_a_repository_has_a_limit(api, team):
    for number in range(DOCUMENTS_MAX):
        data = StandingDocumentIn(repository="shop", title=f"Rule {number}", content="x")
        attach_document(team=team, data=data, actor="test")
    response = api.post("/standing-documents", STYLE)
    assert response.status_code == 409
    assert "100 standing documents" in response.json()["detail"]
    replaced = api.post("/standing-documents", STYLE | {"title": "Rule 7"})
    assert replaced.status_code == 200


def test_list(api, django_assert_num_queries):
    for title in ("A", "B", "C"):
        api.post("/standing-documents", STYLE | {"title": title})
    api.post("/standing-documents", STYLE | {"repository": "other"})
    # The key, and the documents.
    with django_assert_num_queries(2):
        first = api.get("/standing-documents", repository="shop", limit=2).json()
    assert [row["title"] for row in first["items"]] == ["A", "B"]
    assert "content" not in first["items"][0]
    rest = api.get("/standing-documents", repository="shop", cursor=first["next_cursor"]).json()
    assert [row["title"] for row in rest["items"]] == ["C"]
    assert len(api.get("/standing-documents").json()["items"]) == 4


def test_delete(writer, api):
    document = writer.post("/standing-documents", STYLE).json()["id"]
    assert writer.delete(f"/standing-documents/{document}").status_code == 204
    assert api.get(f"/standing-documents/{document}").status_code == 404
    assert AuditEvent.objects.filter(action="document.detached").count() == 1
