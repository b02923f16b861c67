"""Conversations over HTTP: asked, answered and cancelled, and votes on the answers."""

import pytest

from contextopt import tasks
from contextopt.chat.models import Message
from memory.feedback.models import Vote
from tests import factories
from tests.contextopt.api.conftest import fields_of
from tests.model_server import refused
from tests.queries import count_at_2_and_20


@pytest.fixture
def conversation(space, api) -> int:
    return api.post("/conversations", {"space": space.slug, "title": "The queue"}).json()["id"]


def test_asked_queued_and_answered(api, llm, conversation):
    llm.script.append(refused(503))
    response = api.post(f"/conversations/{conversation}/messages", {"text": "Why?"})
    assert response.status_code == 201
    message = response.json()
    assert response["Location"] == f"/api/v1/messages/{message['id']}"
    assert (message["state"], message["answer"]) == ("queued", None)
    tasks.send_messages()
    message = api.get(f"/messages/{message['id']}").json()
    assert (message["state"], message["tries"]) == ("queued", 1)
    assert message["error"] == "the model endpoint answered 503"
    assert api.post(f"/messages/{message['id']}/retry").json()["state"] == "queued"
    tasks.send_messages()
    message = api.get(f"/messages/{message['id']}").json()
    assert message["state"] == "answered"
    assert message["answer"]["text"] == "An answer."
    assert message["answer"]["completion_tokens"] == 3
    assert api.get(f"/conversations/{conversation}/messages").json()["items"] == [message]
    assert api.post(f"/messages/{message['id']}/cancel").status_code == 409


def test_the_prompt_is_what_was_sent(api, llm, conversation, space):
    factories.make_record(space, title="Old lock")
    message = api.post(f"/conversations/{conversation}/messages", {"text": "Why?"}).json()
    prompt = api.get(f"/messages/{message['id']}/prompt").json()
    tasks.send_messages()
    assert llm.seen[0].body["messages"] == prompt["messages"]
    assert prompt["is_complete"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "text"),
        ({"text": " \n"}, "text"),
        ({"text": "a\x00b"}, "text"),
        ({"text": "x" * 100_001}, "text"),
        ({"text": "Why?", "role": "system"}, "role"),
        ({"text": "word " * 15_000}, "total_tokens"),
    ],
)
def test_bad_messages(api, conversation, body, field):
    response = api.post(f"/conversations/{conversation}/messages", body)
    assert response.status_code == 422
    assert fields_of(response) == {field}
    assert not Message.objects.exists()


@pytest.mark.parametrize(
    ("changes", "field"), [({"stage": 9}, "stage"), ({"title": "x" * 121}, "title"), ({"model": 1}, "model")]
)
def test_bad_conversations(api, space, changes, field):
    response = api.post("/conversations", {"space": space.slug, **changes})
    assert response.status_code == 422
    assert fields_of(response) == {field}
    assert api.post("/conversations", {"space": "nowhere"}).status_code == 404


def test_lists_take_the_same_queries(api, space, settings):
    conversation = factories.make_conversation(space)
    api.get("/me")  # notes the key's use

    def read() -> None:
        api.get("/conversations")
        api.get(f"/conversations/{conversation.pk}/messages")

    def go_on() -> None:
        factories.make_answer(conversation, settings)
        factories.make_conversation(space)

    # the key, the conversations; the key, the conversation, its messages
    assert count_at_2_and_20(read, go_on) == [5, 5]


# Feedback


@pytest.fixture
def answer(space, settings):
    return factories.make_answer(factories.make_conversation(space), settings)


def test_votes_of_a_rater_and_of_the_key(api, answer):
    body = {"message_id": answer.pk, "rating": "up"}
    own = api.post("/feedback", body).json()
    assert own["rater"] == "key:admin-key"
    ann = api.post("/feedback", {**body, "rater": "ann", "rating": "down", "reason": "outdated"}).json()
    assert (ann["rater"], ann["stage"], ann["config_version"]) == ("rater:ann", 4, 1)
    again = api.post("/feedback", {**body, "rater": "ann"}).json()
    assert (again["id"], again["rating"], again["reason"]) == (ann["id"], "up", "")
    assert len(api.get("/feedback").json()["items"]) == 2
    assert len(api.get("/feedback", rater="ann").json()["items"]) == 1
    subject = {"message_id": answer.pk, "rater": "ann"}
    assert api.post("/feedback/withdraw", subject).json() == {"withdrawn": True}
    assert api.post("/feedback/withdraw", subject).json() == {"withdrawn": False}
    assert api.get("/feedback", rating="up").json()["items"][0]["id"] == own["id"]


def test_a_rater_cannot_pass_for_a_user(api, answer):
    body = {"message_id": answer.pk, "rating": "up", "rater": "user:olga"}
    assert api.post("/feedback", body).json()["rater"] == "rater:user:olga"


def test_an_answer_made_elsewhere(api, space):
    assembly = factories.make_assembly(space)
    response = api.post("/feedback", {"external_message_id": "m-1", "rating": "up"})
    assert fields_of(response) == {"assembly_id"}
    body = {"external_message_id": "m-1", "assembly_id": assembly.id, "rating": "up"}
    vote = api.post("/feedback", body).json()
    assert (vote["external_message_id"], vote["assembly_id"]) == ("m-1", assembly.id)
    assert api.post("/feedback", {"external_message_id": "m-1", "rating": "down"}).json()["id"] == vote["id"]
    other = factories.make_assembly(space)
    assert api.post("/feedback", {**body, "assembly_id": other.id}).status_code == 409
    assert api.post("/feedback/withdraw", {"external_message_id": "m-9"}).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"rating": "up"}, "body"),
        ({"rating": "up", "message_id": 1, "external_message_id": "x"}, "body"),
        ({"rating": "sideways", "assembly_id": 1}, "rating"),
        ({"rating": "up", "assembly_id": 2**63}, "assembly_id"),
        ({"rating": "up", "assembly_id": 1, "rater": " "}, "rater"),
        ({"rating": "up", "assembly_id": 1, "comment": "x" * 2_001}, "comment"),
        ({"rating": "up", "assembly_id": 1, "reason": "\ud800"}, "reason"),
    ],
)
def test_bad_votes(api, body, field):
    response = api.post("/feedback", body)
    assert response.status_code == 422
    assert fields_of(response) == {field}
    assert not Vote.objects.exists()


def test_trends(api, space, answer):
    factories.make_record(space)
    disliked = factories.make_assembly(space)
    api.post("/feedback", {"assembly_id": disliked.id, "rating": "down"})
    api.post("/feedback", {"message_id": answer.pk, "rating": "up"})
    found = api.get("/feedback/trends").json()
    assert found["items"] == [{"key": "4", "space": "", "title": "", "up": 1, "down": 1, "liked_rate": 0.5}]
    by_record = api.get("/feedback/trends", by="record", space=space.slug).json()["items"]
    assert [(item["title"], item["down"]) for item in by_record] == [("Queue stuck after deploy", 1)]
    assert fields_of(api.get("/feedback/trends", space="nowhere")) == {"space"}
    assert fields_of(api.get("/feedback/trends", by="mood")) == {"by"}
