"""Votes: one for each person and answer, however the answer is named."""

from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.chat.models import Message
from contextopt.errors import Conflict, InvalidInput, NotFound
from contextopt.people.inputs import KeyIn
from contextopt.people.keys import create_key
from contextopt.people.models import Team, User
from contextopt.spaces.models import Space
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.models import ExternalMessage, Vote
from memory.feedback.recordusage import answer_text
from memory.feedback.trends import VoteFilter, read_record_trends, read_vote_groups, read_vote_series
from memory.feedback.votes import feedback_changed, give_feedback, withdraw_feedback
from tests import factories
from tests.contextopt.api.conftest import Caller
from tests.queries import count_at_2_and_20

UP, DOWN = OpinionIn(rating="up"), OpinionIn(rating="down", reason="outdated", comment="From last year.")


def vote(team: Team, opinion: OpinionIn = UP, rater: str = "user:olga", **subject: Any) -> Vote:
    return give_feedback(team=team, subject=SubjectIn(**subject), opinion=opinion, rater=rater)


@pytest.fixture
def answer(space: Space, settings: Any) -> Message:
    return factories.make_answer(factories.make_conversation(space), settings)


def test_a_vote_is_changed_and_taken_back(team: Team, answer: Message) -> None:
    first = vote(team, message_id=answer.pk)
    assert (first.rating, first.stage, first.config_version, first.space_id) == (
        "up", 4, 1, answer.conversation.space_id
    )  # fmt: skip
    second = vote(team, DOWN, message_id=answer.pk)
    assert second.pk == first.pk
    stored = Vote.objects.get()
    assert (stored.rating, stored.reason, stored.comment) == ("down", "outdated", "From last year.")
    subject = SubjectIn(message_id=answer.pk)
    assert withdraw_feedback(team=team, subject=subject, rater="user:olga")
    assert not withdraw_feedback(team=team, subject=subject, rater="user:olga")
    assert not Vote.objects.exists()


def test_the_assembly_of_an_answer_stands_for_it(team: Team, answer: Message) -> None:
    vote(team, message_id=answer.pk)
    vote(team, DOWN, assembly_id=answer.assembly_id)
    assert Vote.objects.get().rating == "down"
    vote(team, rater="user:tom", assembly_id=answer.assembly_id)
    assert Vote.objects.count() == 2


def test_an_answer_made_elsewhere_is_remembered(team: Team, space: Space) -> None:
    assembly = factories.make_assembly(space)
    with pytest.raises(InvalidInput, match="assembly_id"):
        vote(team, external_message_id="m-1")
    vote(team, external_message_id="m-1", assembly_id=assembly.id)
    vote(team, DOWN, external_message_id="m-1")
    assert Vote.objects.get().assembly_id == assembly.id
    assert ExternalMessage.objects.get().assembly_id == assembly.id
    other = factories.make_assembly(space)
    with pytest.raises(Conflict, match=str(assembly.id)):
        vote(team, external_message_id="m-1", assembly_id=other.id)
    # Two answers of one assembly have a vote each.
    vote(team, external_message_id="m-2", assembly_id=assembly.id)
    vote(team, assembly_id=assembly.id)
    assert Vote.objects.count() == 3


def test_what_is_another_teams_is_not_found(other_team: Team, answer: Message, space: Space) -> None:
    for subject in ({"message_id": answer.pk}, {"assembly_id": answer.assembly_id}):
        with pytest.raises(NotFound):
            vote(other_team, **subject)
    with pytest.raises(NotFound):
        vote(other_team, external_message_id="m-1", assembly_id=answer.assembly_id)
    assert not ExternalMessage.objects.exists()


def test_a_question_is_not_voted_on(team: Team, answer: Message) -> None:
    with pytest.raises(NotFound):
        vote(team, message_id=answer.reply_to_id)


def test_the_database_refuses_a_second_vote(team: Team, answer: Message, space: Space) -> None:
    assembly = factories.make_assembly(space)
    external = ExternalMessage.objects.create(team=team, external_id="m-1", assembly_id=assembly.id)
    for subject in ({"message": answer}, {"external_message": external}, {}):
        fields = {"team": team, "assembly_id": assembly.id, "rater": "user:olga", "rating": "up", **subject}
        Vote.objects.create(**fields)
        with pytest.raises(IntegrityError), transaction.atomic():
            Vote.objects.create(**fields)


def test_others_hear_of_it_once_it_is_stored(
    team: Team, answer: Message, django_capture_on_commit_callbacks: Any
) -> None:
    heard: list[dict[str, Any]] = []

    def hear(**told: Any) -> None:
        heard.append(told)
        raise ValueError("a listener that fails")

    feedback_changed.connect(hear)
    try:
        with django_capture_on_commit_callbacks(execute=True):
            vote(team, message_id=answer.pk)
            vote(team, DOWN, message_id=answer.pk)
            withdraw_feedback(team=team, subject=SubjectIn(message_id=answer.pk), rater="user:olga")
            assert heard == []
    finally:
        feedback_changed.disconnect(hear)
    assert [(told["before"], told["after"]) for told in heard] == [("", "up"), ("up", "down"), ("down", "")]
    assert {told["assembly_id"] for told in heard} == {answer.assembly_id}


# Trends


def everything(team: Team) -> VoteFilter:
    now = timezone.now()
    return VoteFilter(team.pk, now - timedelta(days=1), now + timedelta(days=1))


def test_trends(team: Team, space: Space, other_team: Team) -> None:
    old, new = (factories.make_record(space, title=title) for title in ("Old runbook", "New runbook"))
    liked = factories.make_assembly(space)
    old_only = factories.make_assembly(space, max_records=1)
    stage2 = factories.make_assembly(space, stage=2)
    kept = [entry["id"] for entry in old_only.entries if entry["kept"]]
    for rater in ("rater:a", "rater:b", "rater:c"):
        vote(team, DOWN, rater, assembly_id=old_only.id)
    vote(team, assembly_id=liked.id)
    vote(team, assembly_id=stage2.id)
    rival = factories.make_assembly(factories.make_space(other_team))
    vote(other_team, DOWN, assembly_id=rival.id)

    wanted = everything(team)
    groups = {g.key: (g.figures.up, g.figures.down) for g in read_vote_groups(wanted, "stage")}
    assert groups == {"4": (1, 3), "2": (1, 0)}
    assert [(g.key, g.space) for g in read_vote_groups(wanted, "config")] == [("1", space.slug)]
    assert read_vote_groups(wanted, "phase") == []
    assert [g.key for g in read_vote_groups(wanted, "reason")] == ["outdated"]
    records = read_record_trends(wanted)
    assert [(r.record_id, r.figures.up, r.figures.down) for r in records] == [(kept[0], 1, 3)]
    assert {old.pk, new.pk} >= {r.record_id for r in records}
    total, points = read_vote_series(wanted, [wanted.start, timezone.now(), wanted.until])
    assert (total.up, total.down, total.liked_rate) == (2, 3, 0.4)
    assert [p.votes for p in points] == [5, 0]


def test_an_answer_to_an_audited_prompt_says_nothing_about_a_context(team: Team, space: Space) -> None:
    factories.make_record(space)
    vote(team, DOWN, assembly_id=factories.make_audited_assembly(space).id)
    wanted = everything(team)
    assert read_vote_groups(wanted, "stage") == read_vote_groups(wanted, "config") == []
    assert read_record_trends(wanted) == []
    assert [group.key for group in read_vote_groups(wanted, "reason")] == ["outdated"]
    for found, votes in ((wanted, 1), (replace(wanted, stage=4), 0), (replace(wanted, config_version=1), 0)):
        assert read_vote_series(found, [wanted.start, wanted.until])[0].votes == votes


def test_trends_read_the_same_queries_whatever_the_votes(team: Team, space: Space) -> None:
    factories.make_record(space)
    assembly = factories.make_assembly(space)
    numbers = count(1)
    counts = count_at_2_and_20(
        lambda: read_record_trends(everything(team)),
        lambda: vote(team, DOWN, f"rater:{next(numbers)}", assembly_id=assembly.id),
    )
    assert counts == [1, 1]


def test_an_erased_payload_is_no_error(team: Team, space: Space) -> None:
    factories.make_record(space)
    assembly = factories.make_assembly(space)
    vote(team, DOWN, assembly_id=assembly.id)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM contextopt_assemblypayload")
    assert read_record_trends(everything(team)) == []


# In the admin


def test_votes_are_looked_at_in_the_admin(team: Team, space: Space, client: Client) -> None:
    assembly = factories.make_assembly(space)
    given = vote(team, DOWN, external_message_id="m-1", assembly_id=assembly.id)
    client.force_login(User.objects.create_superuser("root", password="x"))
    for model, row in (("vote", given.pk), ("externalmessage", given.external_message_id)):
        assert client.get(f"/admin/memory/{model}/").status_code == 200
        assert client.get(f"/admin/memory/{model}/?q=7").status_code == 200
        assert client.get(f"/admin/memory/{model}/{row}/change/").status_code == 200
        assert client.post(f"/admin/memory/{model}/{row}/delete/", {"post": "yes"}).status_code == 403


def test_the_text_of_an_answer_made_elsewhere_is_kept(api: Caller, space: Space) -> None:
    factories.make_record(space, notes="I adopted a grey cat named Pixel.")
    assembly = factories.make_assembly(space, query="Which pet?").id
    vote = {
        "assembly_id": assembly,
        "external_message_id": "m-1",
        "rating": "up",
        "answer": "A grey cat, Pixel.",
    }
    assert api.post("/feedback", vote).status_code == 200
    assert ExternalMessage.objects.get().answer == "A grey cat, Pixel."
    # A later vote without it leaves it as it is.
    assert api.post("/feedback", {"external_message_id": "m-1", "rating": "down"}).status_code == 200
    assert ExternalMessage.objects.get().answer == "A grey cat, Pixel."
    refused = api.post("/feedback", {"assembly_id": assembly, "rating": "up", "answer": "A cat."})
    assert refused.status_code == 422
    assert "external_message_id" in refused.content.decode()


def test_the_providers_id_finds_an_answer_of_the_gateway(team: Team, other_team: Team, space: Space) -> None:
    made = factories.make_assembly(space)
    factories.make_gateway_request(space, assembly_id=made.id, answer_id="chatcmpl-1", question="Why?")
    given = vote(team, external_message_id="chatcmpl-1")
    assert given.assembly_id == made.id
    assert vote(team, DOWN, external_message_id="chatcmpl-1").pk == given.pk
    with pytest.raises(InvalidInput, match="gateway"):
        vote(team, external_message_id="chatcmpl-2")
    with pytest.raises(InvalidInput, match="gateway"):
        vote(other_team, external_message_id="chatcmpl-1")
    assert withdraw_feedback(
        team=team, subject=SubjectIn(external_message_id="chatcmpl-1"), rater="user:olga"
    )


def test_an_answer_without_a_context_cannot_be_voted_on(team: Team, space: Space) -> None:
    factories.make_gateway_request(space, answer_id="chatcmpl-1")
    factories.make_gateway_request(space, answer_id="")
    for name in ("chatcmpl-1", "other"):
        with pytest.raises(InvalidInput, match="gateway"):
            vote(team, external_message_id=name)


def test_two_answers_with_one_context_are_two(team: Team, space: Space) -> None:
    made = factories.make_assembly(space)
    for name in ("msg_1", "msg_2"):
        factories.make_gateway_request(space, assembly_id=made.id, answer_id=name)
        vote(team, external_message_id=name)
    assert Vote.objects.filter(assembly=made.id).count() == 2


def test_an_answer_in_another_space_is_not_found_with_a_limited_key(team: Team, space: Space) -> None:
    made = factories.make_assembly(space)
    factories.make_gateway_request(space, assembly_id=made.id, answer_id="resp_1")
    other = factories.make_space(team, "other")
    body = {"external_message_id": "resp_1", "rating": "up"}
    for reached, status in ((other, 404), (space, 200)):
        data = KeyIn(name=reached.slug, scope="write", spaces=[reached.slug])
        _, secret = create_key(team=team, data=data, actor="test")
        assert Caller(secret).post("/feedback", body).status_code == status


def test_the_kept_answer_tells_which_records_it_used(team: Team, space: Space) -> None:
    factories.make_record(space, title="Vault", notes="The lighthouse key is under the zinc bucket.")
    made = factories.make_assembly(space)
    assembly = Assembly.objects.get(pk=made.id)
    assert answer_text(assembly) == ""
    factories.make_gateway_request(space, assembly=assembly, question="Where?", answer="Under the bucket.")
    assert answer_text(assembly) == "Under the bucket."
