import json
from datetime import UTC, datetime

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from contextopt.people.models import Role, Team
from contextopt.spaces.configs import draft_settings
from contextopt.spaces.inputs import ConfigIn
from contextopt.spaces.models import Record, Space
from dashboard.kit.formats import signed
from dashboard.pages.spaces.forms import UPLOAD_MAX_BYTES, UPLOAD_MAX_LINES
from dashboard.pages.spaces.proofs import begin_proofs
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.votes import give_feedback
from memory.questions.calibration import read_calibration
from memory.questions.evaluations import EVALUATIONS, request_and_begin
from memory.questions.growth import SET_NAME
from memory.questions.inputs import EvaluationIn, QuestionIn
from memory.questions.models import Evaluation, EvaluationState, Question, QuestionSet
from memory.questions.sets import add_question, create_set, set_minimum
from memory.review.inputs import VerdictIn
from memory.review.reservations import give_verdict
from tests import factories
from tests.dashboard.conftest import HTMX, html_of, log_in, seen_in, squeezed
from tests.memory.factories import make_review
from tests.memory.questions.conftest import ASKED, SAID_AT, make_questions, make_talk
from tests.queries import count_queries

PET = ASKED[0][1]


@pytest.fixture
def talk(space: Space) -> list[Record]:
    return make_talk(space)


@pytest.fixture
def questions(space: Space, talk: list[Record]) -> QuestionSet:
    return make_questions(space)


@pytest.fixture
def reviewer_client(team: Team) -> Client:
    return log_in(factories.make_user("rita", team, Role.REVIEWER))


def url_of(found: QuestionSet, part: str = "") -> str:
    return f"/questions/{found.pk}/{part}"


def test_an_empty_list_says_what_to_do(owner_client, space) -> None:
    html = html_of(owner_client, "/questions/")
    assert "No question sets yet" in html
    assert "manage.py import_questions SPACE FILE.jsonl" in html
    assert "manage.py import_questions support FILE.jsonl" in html_of(
        owner_client, "/questions/?space=support"
    )


def test_a_team_without_a_space_is_told_to_create_one(owner_client) -> None:
    html = html_of(owner_client, "/questions/")
    assert "Create a space</a> first" in html
    assert "Create question set</button>" not in html


def test_lists_sets_with_their_last_recall(owner_client, questions, team) -> None:
    create_set(space=factories.make_space(team, "other"), name="Elsewhere", actor="test")
    assert "not yet" in html_of(owner_client, "/questions/")
    request_and_begin(question_set=questions, data=EvaluationIn(), actor="test")
    html = html_of(owner_client, "/questions/")
    assert "100.0 %" in html
    assert "Elsewhere" in html
    assert "Elsewhere" not in html_of(owner_client, "/questions/?space=support")


def test_the_list_takes_the_same_queries_for_one_set_and_for_three(owner_client, questions, space) -> None:
    before = count_queries(lambda: html_of(owner_client, "/questions/"))
    for name in ("B", "C"):
        create_set(space=space, name=name, actor="test")
    assert count_queries(lambda: html_of(owner_client, "/questions/")) == before


def test_the_page_of_a_set_takes_the_same_queries_for_four_questions_and_for_nine(
    owner_client, questions
) -> None:
    def count() -> int:
        request_and_begin(question_set=questions, data=EvaluationIn(), actor="test")
        return count_queries(lambda: html_of(owner_client, url_of(questions)))

    before = count()
    for number in range(5):
        data = QuestionIn(query=f"Boats {number}?", expected=["D1:2"], as_of=SAID_AT)
        add_question(question_set=questions, data=data, actor="test")
    assert count() == before


def test_creates_renames_and_deletes_a_set(owner_client, space) -> None:
    done = owner_client.post("/questions/new", {"space": "support", "name": "Facts"})
    found = QuestionSet.objects.get()
    assert done.url == url_of(found)
    assert owner_client.post("/questions/new", {"space": "support", "name": "Facts"}).status_code == 422
    assert "No questions yet" in html_of(owner_client, url_of(found))
    owner_client.post(url_of(found, "rename"), {"name": "More facts"})
    found.refresh_from_db()
    assert found.name == "More facts"
    assert owner_client.post(url_of(found, "rename"), {"name": " "}).status_code == 422
    owner_client.post(url_of(found, "delete"))
    assert not QuestionSet.objects.exists()


def test_adds_a_question_by_hand_with_found_records(owner_client, questions, talk) -> None:
    url = url_of(questions, "new/")
    assert "Search above" in html_of(owner_client, url)
    found = html_of(owner_client, url_of(questions, f"records/?words=bicycle+tram&record_ids={talk[0].pk}"))
    assert f'value="{talk[0].pk}" checked' in found
    assert f'value="{talk[5].pk}">' in squeezed(found)
    refused = owner_client.post(url, {"query": "How does Ben travel?"})
    assert refused.status_code == 422
    assert "Tick or name at least one record that answers the question." in refused.content.decode()
    asked = {"query": "How does Ben travel?", "record_ids": [talk[5].pk], "expected": "D1:2"}
    assert owner_client.post(url, asked).status_code == 302
    question = Question.objects.get(text="How does Ben travel?")
    assert set(question.records.all()) == {talk[5], talk[1]}
    changed = {"query": "How does Ben get around?", "record_ids": [talk[5].pk]}
    owner_client.post(f"/questions/question/{question.pk}/", changed)
    question.refresh_from_db()
    assert (question.text, list(question.records.all())) == ("How does Ben get around?", [talk[5]])
    owner_client.post(f"/questions/question/{question.pk}/delete")
    assert not Question.objects.filter(pk=question.pk).exists()


def test_a_change_made_meanwhile_is_not_replaced_unseen(owner_client, questions, talk) -> None:
    question = questions.questions.order_by("id").first()
    url = f"/questions/question/{question.pk}/"
    opened = {"query": "Mine?", "record_ids": [talk[0].pk], **seen_in(html_of(owner_client, url))}
    owner_client.post(url, opened | {"query": "Theirs?"})
    response = owner_client.post(url, opened)
    assert response.status_code == 409
    question.refresh_from_db()
    assert question.text == "Theirs?"
    owner_client.post(url, opened | seen_in(response.content.decode()))
    question.refresh_from_db()
    assert question.text == "Mine?"


def test_the_time_of_a_question_is_picked_and_kept(owner_client, questions, talk) -> None:
    question = questions.questions.order_by("id").first()
    url = f"/questions/question/{question.pk}/"
    assert 'type="datetime-local" name="as_of" value="2026-05-08T13:56:00"' in html_of(owner_client, url)
    data = {"query": question.text, "record_ids": [talk[0].pk], "as_of": "2026-05-09T08:30:00"}
    owner_client.post(url, data)
    question.refresh_from_db()
    assert question.as_of == datetime(2026, 5, 9, 8, 30, tzinfo=UTC)


def test_a_record_of_another_space_is_refused(owner_client, questions, other_team) -> None:
    strange = factories.make_record(factories.make_space(other_team, "theirs"))
    refused = owner_client.post(url_of(questions, "new/"), {"query": "Who?", "record_ids": [strange.pk]})
    assert refused.status_code == 422
    assert "is not in this space" in refused.content.decode()
    assert strange.title not in refused.content.decode()


def test_evaluates_and_shows_each_question(owner_client, questions) -> None:
    shown = owner_client.post(url_of(questions, "evaluate"), headers={**HTMX, "HX-Target": "evaluation"})
    answer = shown.content.decode()
    assert "<dd>100.0 %</dd>" in answer
    # The table follows the run.
    rows = answer.partition('id="questions"')[2]
    assert 'hx-swap-oob="true"' in rows
    assert rows.count('<span class="tag kept">found</span>') == 4
    html = html_of(owner_client, url_of(questions))
    assert html.count('<span class="tag kept">found</span>') == 4
    assert "/spaces/support/preview/?question=Which%20pet" in html
    assert Evaluation.objects.get().created_by == "user:olga"


def test_the_active_settings_come_first(owner_client, questions, space) -> None:
    draft = draft_settings(space=space, created_by="test", context_tokens=0)
    request_and_begin(question_set=questions, data=EvaluationIn(config_version=draft.version), actor="test")
    assert "config v2," in html_of(owner_client, url_of(questions))
    # Evaluated as the values of a form, these are the active version's all the same.
    unsaved = EvaluationIn(settings=ConfigIn())
    request_and_begin(question_set=questions, data=unsaved, actor="test")
    request_and_begin(question_set=questions, data=EvaluationIn(config_version=draft.version), actor="test")
    assert "config v1," in html_of(owner_client, url_of(questions))


def test_a_missed_record_is_shown_with_the_step_that_lost_it(owner_client, questions, talk) -> None:
    owner_client.post(f"/spaces/support/records/{talk[0].pk}/delete")
    owner_client.post(url_of(questions, "evaluate"))
    html = html_of(owner_client, url_of(questions))
    assert "D1:1: deleted" in html
    assert '<span class="tag drop">missed</span>' in html


def test_a_missed_record_is_named_by_its_title(owner_client, questions, talk) -> None:
    request_and_begin(question_set=questions, data=EvaluationIn(context_tokens=30), actor="test")
    html = html_of(owner_client, url_of(questions))
    assert "Ada: dropped at rank" in html
    assert "D1:1" not in html


@pytest.mark.parametrize("content", [b"x" * (UPLOAD_MAX_BYTES + 1), b"1\n" * (UPLOAD_MAX_LINES + 1)])
def test_a_file_that_is_too_large_names_the_command(content: bytes, owner_client, questions) -> None:
    file = SimpleUploadedFile("q.jsonl", content)
    refused = owner_client.post(url_of(questions, "import/"), {"file": file}).content.decode()
    assert "Use `manage.py import_questions` for" in refused


def test_imports_a_file_and_reports_rejected_lines(owner_client, questions) -> None:
    lines = [{"id": "n1", "query": "Who hikes?", "expected": ["D1:4"]}, {"id": "n2", "query": "Who?"}]
    upload = SimpleUploadedFile("q.jsonl", "\n".join(map(json.dumps, lines)).encode())
    done = owner_client.post(url_of(questions, "import/"), {"file": upload})
    html = html_of(owner_client, done.url)
    assert "2 lines read" in html
    assert '<td class="mono">expected</td>' in html
    assert questions.questions.count() == 5


def test_a_minimum_is_the_admins(owner_client, editor_client, questions) -> None:
    assert editor_client.post(url_of(questions, "minimum"), {"min_recall": "90"}).status_code == 403
    assert owner_client.post(url_of(questions, "minimum"), {"min_recall": "200"}).status_code == 422
    owner_client.post(url_of(questions, "minimum"), {"min_recall": "90"})
    questions.refresh_from_db()
    assert questions.min_recall == 0.9
    assert editor_client.post(url_of(questions, "delete")).status_code == 403
    owner_client.post(url_of(questions, "minimum"), {"min_recall": ""})
    questions.refresh_from_db()
    assert questions.min_recall is None


def test_a_mean_that_reaches_the_minimum_is_not_below_it(owner_client, questions) -> None:
    owner_client.post(url_of(questions, "evaluate"))
    set_minimum(question_set=questions, min_recall=0.8, actor="test")
    for recall, is_below in ((0.7 + 0.1, False), (0.79, True)):
        questions.evaluations.update(recall=recall)
        assert ("below the minimum" in html_of(owner_client, url_of(questions))) == is_below


def test_publishing_below_the_minimum_is_refused_on_the_page(owner_client, questions, space) -> None:
    set_minimum(question_set=questions, min_recall=0.9, actor="test")
    html = html_of(owner_client, "/spaces/support/settings/")
    assert "Effect on question sets" in html
    form = settings_form(space) | {"question_notes_chars": "10"}
    proof = owner_client.post("/spaces/support/evaluate", form, headers=HTMX).content.decode()
    assert "below the minimum" in proof
    refused = owner_client.post("/spaces/support/settings/", form)
    assert refused.status_code == 422
    assert "below its minimum of 90.0 %" in refused.content.decode()
    assert space.configs.count() == 1
    fine = owner_client.post("/spaces/support/settings/", settings_form(space) | {"max_records": "19"})
    assert fine.status_code == 302
    assert space.configs.count() == 2


def test_the_effect_takes_the_same_queries_for_one_set_and_for_three(owner_client, questions, space) -> None:
    def count(sets: int) -> int:
        proofs = begin_proofs(space, {"max_records": 1, "question_max_records": 1}, "test")
        assert [proof.is_compared for proof in proofs.rows] == [True] * sets
        with CaptureQueriesContext(connection) as found:
            html = html_of(owner_client, "/spaces/support/proof/", key=proofs.key)
        assert html.count("found more") == sets
        return len(found)

    before = count(1)
    for name in ("B", "C"):
        make_questions(space, name)
    assert count(3) == before


def settings_form(space: Space) -> dict[str, str]:
    from dashboard.pages.spaces.forms import ConfigForm

    form = ConfigForm(initial=ConfigForm.initial_of(space.configs.active().get()))
    return {name: str(value) for name in form.fields if (value := form[name].value()) is not None}


def test_a_verdict_becomes_a_question_by_one_click(reviewer_client, space, talk) -> None:
    item = make_review(space, query=PET, as_of=SAID_AT)
    page = f"/review/{item.pk}/"
    assert "Add to questions" not in html_of(reviewer_client, page)
    verdict = VerdictIn(verdict="context_missing", record_ids=[talk[0].pk])
    give_verdict(item=item, reviewer="user:rita", data=verdict)
    assert "Add to questions" in html_of(reviewer_client, page)
    done = reviewer_client.post(f"/review/{item.pk}/question", follow=True)
    assert f"Added to “{SET_NAME}”" in done.content.decode()
    question = Question.objects.get()
    assert (question.text, list(question.records.all())) == (PET, [talk[0]])
    again = reviewer_client.post(f"/review/{item.pk}/question", follow=True)
    assert "Already in" in again.content.decode()
    reviewer_client.post(f"/questions/question/{question.pk}/delete")
    assert not Question.objects.exists()


def test_without_related_records_the_visitor_chooses(reviewer_client, space, talk) -> None:
    item = make_review(space, query=PET, as_of=SAID_AT)
    give_verdict(item=item, reviewer="user:rita", data=VerdictIn(verdict="context_missing"))
    done = reviewer_client.post(f"/review/{item.pk}/question")
    assert done.url == f"/assemblies/{item.assembly_id}/question"
    html = html_of(reviewer_client, done.url)
    assert PET in html
    assert f'value="{talk[0].pk}">' in squeezed(html)
    form = {"query": PET, "record_ids": [talk[0].pk]}
    assert reviewer_client.post(done.url, form).status_code == 302
    assert Question.objects.get().assembly_id == item.assembly_id


def test_an_upvoted_answer_becomes_a_question_by_one_click(reviewer_client, space, talk, settings) -> None:
    chat = factories.make_conversation(space, stage=5)
    answer = factories.make_answer(chat, settings, "She adopted a grey cat named Pixel.", PET)
    page, button = f"/assemblies/{answer.assembly_id}/", "Add to questions"
    assert button not in html_of(reviewer_client, page)
    give_feedback(
        team=space.team, subject=SubjectIn(message_id=answer.pk), opinion=OpinionIn(rating="up"),
        rater="user:rita",
    )  # fmt: skip
    assert button in html_of(reviewer_client, page)
    assert button in html_of(reviewer_client, f"/chat/{chat.pk}/")
    url = f"/assemblies/{answer.assembly_id}/question"
    added = reviewer_client.post(url, {"one_click": "1"}, headers=HTMX).content.decode()
    assert "Added to" in added
    assert "<html" not in added
    question = Question.objects.get()
    assert list(question.records.all()) == [talk[0]]
    assert "Already in" in reviewer_client.post(url, {"one_click": "1"}, headers=HTMX).content.decode()


def test_readers_are_offered_no_changes(teammate_client, outsider_client, questions) -> None:
    question = questions.questions.first()
    pages = [
        url_of(questions), f"/questions/question/{question.pk}/", "/questions/?space=support",
    ]  # fmt: skip
    for page in pages:
        assert "Delete…" not in html_of(teammate_client, page)
    assert outsider_client.get("/questions/?space=support").status_code == 404


def test_compares_budgets_and_saves_the_proposal(owner_client, teammate_client, questions, space) -> None:
    assert "Compare budgets" in html_of(owner_client, url_of(questions))
    started = owner_client.post(url_of(questions, "calibrate"), headers={**HTMX, "HX-Target": "calibration"})
    html = started.content.decode()
    assert 'hx-trigger="every 1s"' in html and "0 of 4 questions asked" in html
    assert "Evaluation</h2>" not in html
    for evaluation in questions.evaluations.all():
        EVALUATIONS.complete(evaluation)
    html = html_of(owner_client, url_of(questions))
    proposed = read_calibration(questions).proposed
    assert f"strictness {signed(proposed.strictness, 1)}" in html
    assert html.count('<span class="tag kept">proposed</span>') == 1
    assert "Save as a draft" not in html_of(teammate_client, url_of(questions))
    assert teammate_client.post(url_of(questions, "draft")).status_code == 403
    saved = owner_client.post(url_of(questions, "draft"))
    draft = space.configs.latest("version")
    assert saved["Location"] == f"/spaces/support/settings/#version-{draft.version}"
    assert (draft.is_draft, draft.settings.adaptive_strictness) == (True, proposed.strictness)


def test_a_comparison_that_failed_says_why(owner_client, questions) -> None:
    owner_client.post(url_of(questions, "calibrate"))
    questions.evaluations.update(state=EvaluationState.FAILED, error="The encoder is away.")
    html = (
        html_of(owner_client, url_of(questions)).partition('id="calibration"')[2].partition("</section>")[0]
    )
    assert html.count("The encoder is away.") == 6
    assert "Compare budgets</button>" in html and "every 1s" not in html
    assert "proposed" not in html


def test_nothing_is_saved_before_budgets_are_compared(owner_client, questions, space) -> None:
    html = owner_client.post(url_of(questions, "draft"), follow=True).content.decode()
    assert "Not saved. No adaptive budget finds as much with fewer tokens." in html
    assert space.configs.count() == 1
