import json
import re
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from contextopt.people.models import AuditEvent, Role, Team
from contextopt.search import registry
from contextopt.search.wordcounts import count_words
from contextopt.spaces.models import Record, Space
from dashboard.kit import frame
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.votes import give_feedback
from memory.review.inputs import RulesPatch, VerdictIn
from memory.review.models import ReviewItem, ReviewSlot
from memory.review.queue import fill_queue, rules_of, set_rules
from memory.review.reservations import give_verdict, reserve_item
from tests import factories
from tests.dashboard.conftest import HTMX, html_of, log_in
from tests.memory.factories import make_review
from tests.queries import count_at_2_and_20, count_queries

URL = "/review/"
CUT = VerdictIn(verdict="context_cut", note="A secret note.")


@pytest.fixture
def reviewer(team: Team) -> Client:
    return log_in(factories.make_user("rita", team, Role.REVIEWER))


@pytest.fixture
def item(space: Space) -> ReviewItem:
    factories.make_record(space, notes="Replay the queue. " * 20)
    return make_review(space)


def test_an_empty_queue_says_how_it_fills(reviewer: Client, teammate_client: Client) -> None:
    assert "/api/v1/feedback" in html_of(reviewer, URL)
    assert "Nothing to review yet" in html_of(teammate_client, URL)


def test_the_queue_shows_the_questions(reviewer: Client, space: Space) -> None:
    factories.make_record(space)
    make_review(space, query="Which <queue> was replayed?")
    make_review(space)
    html = html_of(reviewer, URL)
    assert "Which &lt;queue&gt; was replayed?</span>" in html
    assert html.count('class="one-line faint"') == 1


def test_a_viewer_sees_the_progress_alone(teammate_client: Client, item: ReviewItem) -> None:
    html = html_of(teammate_client, URL)
    assert "1 waiting" in html
    assert f"/review/{item.pk}/" not in html
    assert "Review rules" not in html


def test_the_navigation_says_how_many_wait(
    reviewer: Client, teammate_client: Client, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = '<span class="count" id="waiting">{}<span class="sr"> waiting</span></span>'
    assert 'class="count" id="waiting" hidden>' in reviewer.get("/spaces/").content.decode()
    for _ in range(3):
        make_review(space)
    assert counted.format(3) in reviewer.get("/spaces/").content.decode()
    monkeypatch.setattr(frame, "COUNTED_MAX", 2)
    assert counted.format("2+") in reviewer.get("/spaces/").content.decode()
    # A member who doesn't review sees no count.
    assert 'class="count"' not in teammate_client.get("/spaces/").content.decode()


def test_the_next_item_is_reserved_and_shown(reviewer: Client, item: ReviewItem) -> None:
    response = reviewer.post(f"{URL}next", follow=True)
    html = response.content.decode()
    assert response.redirect_chain[-1][0] == f"/review/{item.pk}/"
    assert "reserved for you until" in html
    assert "cut at 100 chars" in html
    assert "outdated" in html


def test_a_conversations_answer_stands_beside_its_context(
    reviewer: Client, space: Space, team: Team, settings: Any
) -> None:
    answer = factories.make_answer(factories.make_conversation(space), settings)
    reviewer.post(f"/chat/answers/{answer.pk}/vote", {"rating": "down"})
    fill_queue(team, now=timezone.now())
    html = reviewer.post(f"{URL}next", follow=True).content.decode()
    assert "Why is the queue stuck?" in html
    assert "An old lock." in html


def test_a_gateway_answer_stands_beside_its_context_if_it_is_kept(
    reviewer: Client, space: Space, team: Team
) -> None:
    kept, sizes = factories.make_assembly(space), factories.make_assembly(space)
    texts = {"question": "Where is the **key**?", "answer": "Under the <b>bucket</b>."}
    factories.make_gateway_request(space, assembly_id=kept.id, answer_id="msg_1", **texts)
    factories.make_gateway_request(space, assembly_id=sizes.id, answer_id="msg_2")
    for name in ("msg_1", "msg_2"):
        subject = SubjectIn(external_message_id=name)
        give_feedback(team=team, subject=subject, opinion=OpinionIn(rating="down"), rater="rater:ann")
    fill_queue(team, now=timezone.now())
    items = {item.assembly_id: item.pk for item in ReviewItem.objects.of(team)}
    html = html_of(reviewer, f"{URL}{items[kept.id]}/")
    assert "Where is the **key**?" in html
    assert "Under the &lt;b&gt;bucket&lt;/b&gt;." in html
    assert "Its text is stored in the calling application" in html_of(reviewer, f"{URL}{items[sizes.id]}/")


def test_the_context_of_an_audited_prompt_was_not_sent(reviewer: Client, space: Space, team: Team) -> None:
    made = factories.make_audited_assembly(space)
    subject = SubjectIn(external_message_id="msg_1", assembly_id=made.id)
    give_feedback(team=team, subject=subject, opinion=OpinionIn(rating="down"), rater="rater:ann")
    fill_queue(team, now=timezone.now())
    html = html_of(reviewer, f"{URL}{ReviewItem.objects.get().pk}/")
    for words in ("audited, not sent", "that it would have been given", "Text that would have been sent"):
        assert words in html


def test_an_answer_given_with_a_vote_is_shown(reviewer: Client, space: Space, team: Team) -> None:
    made = factories.make_assembly(space)
    give_feedback(
        team=team,
        subject=SubjectIn(external_message_id="m-1", assembly_id=made.id),
        opinion=OpinionIn(rating="down"),
        rater="rater:ann",
        answer="It is in the shed.",
    )
    fill_queue(team, now=timezone.now())
    item = ReviewItem.objects.get()
    assert "It is in the shed." in html_of(reviewer, f"{URL}{item.pk}/")


def test_a_verdict_leads_to_the_next_item_and_can_be_undone(reviewer: Client, space: Space) -> None:
    record = factories.make_record(space)
    first, second = make_review(space), make_review(space)
    data = {"verdict": "context_wrong", "note": "From last year.", "record_ids": [record.pk]}
    response = reviewer.post(f"{URL}{first.pk}/verdict", data, follow=True)
    assert response.redirect_chain[-1][0] == f"/review/{second.pk}/"
    slot = first.slots.get()
    assert (slot.verdict, slot.note, slot.record_ids, slot.reviewer) == (
        "context_wrong", "From last year.", [record.pk], "user:rita"
    )  # fmt: skip
    assert f'action="/review/{first.pk}/undo"' in response.content.decode()
    assert "gave a verdict on" in html_of(reviewer, f"{URL}{first.pk}/")
    undone = reviewer.post(f"{URL}{first.pk}/undo", follow=True).content.decode()
    assert first.slots.get().verdict == ""
    # The form has what was withdrawn, once.
    assert "Verdict withdrawn." in undone
    assert ">From last year.</textarea>" in undone
    assert 'value="context_wrong" required data-key="3" checked' in undone
    assert re.search(rf'value="{record.pk}"[^>]* checked', undone)
    assert "From last year." not in html_of(reviewer, f"{URL}{first.pk}/")
    second_undo = reviewer.post(f"{URL}{first.pk}/undo", follow=True).content.decode()
    assert "You have not given a verdict on this item" in second_undo


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "Choose a verdict."),
        ({"verdict": "wrong"}, "Select a valid choice"),
        ({"verdict": "model", "note": "a\x00"}, "Null characters"),
        ({"verdict": "model", "note": "x" * 2_001}, "at most 2"),
        ({"verdict": "model", "record_ids": ["999999999"]}, "neither in this assembly nor in its space"),
        ({"verdict": "model", "record_ids": ["x"]}, "record_ids"),
        ({"verdict": "model", "record_ids": [str(2**70)]}, "record_ids"),
        ({"verdict": "model", "record_ids": ["9" * 5_000]}, "record_ids"),
    ],
)
def test_a_verdict_that_cannot_be(
    data: dict[str, Any], words: str, reviewer: Client, item: ReviewItem
) -> None:
    response = reviewer.post(f"{URL}{item.pk}/verdict", data)
    assert response.status_code == 422
    assert words in response.content.decode()
    assert not ReviewSlot.objects.exclude(verdict="").exists()


def test_a_record_that_the_context_lacked_is_searched_and_ticked(
    reviewer: Client, space: Space, item: ReviewItem
) -> None:
    lacked, other = (factories.make_record(space, title=title) for title in ("Tax return", "Tax refund"))
    count_words(registry.get("record"), space.pk)
    address = reverse("dashboard:review_records", args=[item.pk])
    found = html_of(reviewer, f"{address}?words=tax&record_ids={other.pk}")
    assert re.search(rf'value="{other.pk}" checked form="verdict-form"', found)
    assert re.search(rf'value="{lacked.pk}" form="verdict-form"', found)
    data = {"verdict": "context_missing", "record_ids": [lacked.pk]}
    assert reviewer.post(reverse("dashboard:review_verdict", args=[item.pk]), data).status_code == 302
    assert ReviewSlot.objects.get(item=item).record_ids == [lacked.pk]
    assert re.search(rf'value="{lacked.pk}" checked', html_of(reviewer, f"{URL}{item.pk}/"))
    assert "No other records found." in html_of(reviewer, f"{address}?words=zebra")
    for text in ("9" * 19, "9" * 5_000, "x"):
        assert f'value="{text}"' not in html_of(reviewer, f"{address}?record_ids={text}")


def test_skipped_items_come_back_when_asked_for(reviewer: Client, space: Space) -> None:
    first, second = make_review(space), make_review(space)
    reviewer.post(f"{URL}next")
    response = reviewer.post(f"{URL}{first.pk}/skip")
    assert response.headers["Location"] == f"/review/{second.pk}/"
    assert first.slots.get().reviewer == ""
    assert reviewer.post(f"{URL}{second.pk}/skip").headers["Location"] == URL
    assert "You skipped 2 items." in html_of(reviewer, URL)
    assert reviewer.post(f"{URL}next", {"again": "yes"}).headers["Location"] == f"/review/{first.pk}/"


def test_others_verdicts_are_hidden_until_ones_own(reviewer: Client, team: Team, item: ReviewItem) -> None:
    set_rules(team=team, changes=RulesPatch(verdicts_wanted=2), actor="test")
    give_verdict(item=item, reviewer="user:ann", data=CUT)
    html = html_of(reviewer, f"{URL}{item.pk}/")
    assert "A secret note." not in html
    assert "1 of 2 verdicts given. You will see the others' after giving yours." in html
    assert b"A secret note." not in b"".join(reviewer.get(f"{URL}verdicts.csv"))
    reviewer.post(f"{URL}{item.pk}/verdict", {"verdict": "model"})
    assert "A secret note." in html_of(reviewer, f"{URL}{item.pk}/")
    refused = reviewer.post(f"{URL}{item.pk}/verdict", {"verdict": "other"}, follow=True)
    assert "so yours can no longer be changed" in refused.content.decode()
    exported = b"".join(reviewer.get(f"{URL}verdicts.jsonl")).splitlines()
    assert {json.loads(line)["verdict"] for line in exported} == {"context_cut", "model"}
    assert len(b"".join(reviewer.get(f"{URL}verdicts.csv")).splitlines()) == 3


def test_an_item_that_others_have_says_so(reviewer: Client, item: ReviewItem) -> None:
    reserve_item(item=item, reviewer="user:ann")
    assert (
        "This item is reserved for other reviewers."
        in reviewer.post(f"{URL}{item.pk}/take", follow=True).content.decode()
    )
    response = reviewer.post(f"{URL}{item.pk}/verdict", {"verdict": "model"}, follow=True)
    assert "This item is reserved for other reviewers." in response.content.decode()


def test_an_open_page_keeps_its_reservation(reviewer: Client, item: ReviewItem) -> None:
    reviewer.post(f"{URL}next")
    headers = {**HTMX, "HX-Target": "reserved"}
    before = item.slots.get().reserved_until
    with time_machine.travel(timezone.now() + timedelta(minutes=5)):
        renewed = reviewer.post(f"{URL}{item.pk}/renew", headers=headers)
        assert (renewed.status_code, "reserved for you until" in renewed.content.decode()) == (200, True)
        assert item.slots.get().reserved_until > before
    item.slots.update(reviewer="user:ann")
    lost = reviewer.post(f"{URL}{item.pk}/renew", headers=headers)
    assert (lost.status_code, "someone else has it" in lost.content.decode()) == (286, True)


def test_renewing_without_the_page_leads_to_it(reviewer: Client, item: ReviewItem) -> None:
    for headers in ({}, HTMX):
        response = reviewer.post(f"{URL}{item.pk}/renew", headers=headers)
        assert (response.status_code, response.headers["Location"]) == (302, f"{URL}{item.pk}/")


def test_a_verdict_that_comes_too_late_is_shown_again_as_typed(reviewer: Client, item: ReviewItem) -> None:
    reserve_item(item=item, reviewer="user:ann")
    html = html_of(reviewer, f"{URL}{item.pk}/")
    until = timezone.localtime(item.slots.get().reserved_until, ZoneInfo(item.team.time_zone))
    assert f"Reserved for ann until {until:%H:%M}." in html
    assert 'form="take-form"' not in html
    record = Record.objects.get()
    given = {"verdict": "context_cut", "note": "The steps are missing.", "record_ids": record.pk}
    response = reviewer.post(f"{URL}{item.pk}/verdict", given)
    html = response.content.decode()
    assert response.status_code == 409
    assert '<p class="problem" role="alert">This item is reserved for other reviewers.</p>' in html
    assert "The steps are missing.</textarea>" in html
    assert re.search(r'value="context_cut"[^>]* checked', html)
    assert re.search(rf'name="record_ids" value="{record.pk}"[^>]* checked', html)
    item.slots.update(reserved_until=timezone.now() - timedelta(seconds=1))
    assert "Reserved for ann" not in html_of(reviewer, f"{URL}{item.pk}/")


def test_an_admin_assigns(owner_client: Client, reviewer: Client, item: ReviewItem) -> None:
    owner_client.post(f"{URL}{item.pk}/assign", {"username": "rita"})
    item.refresh_from_db()
    assert item.assigned_to.username == "rita"
    assert f"/review/{item.pk}/" in html_of(reviewer, f"{URL}?whose=mine")
    wrong = owner_client.post(f"{URL}{item.pk}/assign", {"username": "nobody"}, follow=True)
    assert "not a member who can review" in wrong.content.decode()


def test_an_admin_sets_the_rules(owner_client: Client, team: Team) -> None:
    data = {"takes_disliked": "on", "sample_percent": "2.5", "verdicts_wanted": "2"}
    owner_client.post(f"{URL}rules", data)
    rules = rules_of(team.pk)
    assert (rules.takes_disliked, rules.sample_share, rules.verdicts_wanted) == (True, 0.025, 2)
    assert AuditEvent.objects.get().actor == "user:olga"
    for wrong in ({"sample_percent": "101"}, {"verdicts_wanted": "4"}, {"sample_percent": "nan"}):
        assert owner_client.post(f"{URL}rules", data | wrong).status_code == 422


def test_filters(reviewer: Client, space: Space, item: ReviewItem) -> None:
    done = make_review(space)
    give_verdict(item=done, reviewer="user:rita", data=CUT)
    for query, shown in (
        ("", {item.pk}), ("?state=done", {done.pk}), ("?state=all", {item.pk, done.pk}),
        ("?state=all&whose=left", {item.pk}), ("?origin=sample", set()), ("?space=other", set()),
        ("?state=nonsense", set()),
    ):  # fmt: skip
        html = html_of(reviewer, URL + query)
        assert {pk for pk in (item.pk, done.pk) if f'href="/review/{pk}/"' in html} == shown, query


def test_what_to_change(reviewer: Client, space: Space, team: Team) -> None:
    record = factories.make_record(space, title="Old runbook")
    for _ in range(2):
        data = VerdictIn(verdict="context_wrong", record_ids=[record.pk])
        give_verdict(item=make_review(space), reviewer="user:ann", data=data)
    html = html_of(reviewer, URL)
    assert "Context wrong or stale: 2 of 2 verdicts" in html
    assert "Correct or delete it." in html


def test_pages_ask_as_often_for_twenty_items_as_for_two(reviewer: Client, space: Space) -> None:
    factories.make_record(space)

    def judge() -> None:
        give_verdict(item=make_review(space), reviewer="user:ann", data=CUT)

    # the frame's four; rules, progress, agreement; items, by settings, their contexts, by record; spaces
    assert count_at_2_and_20(lambda: html_of(reviewer, f"{URL}?state=done"), judge) == [12, 12]
    item = make_review(space)
    # the frame's four; item, own slot, verdicts; payload, titles, long notes, votes, kept texts; slots,
    # progress; and the session, which keeps the trail
    assert count_queries(lambda: html_of(reviewer, f"{URL}{item.pk}/")) <= 18
