"""Savings beside their quality, and the filters' chips."""

from datetime import datetime, timedelta
from html import unescape

import pytest
import time_machine
from django.test import Client

from contextopt.spaces.configs import activate_config, draft_settings, publish_settings
from contextopt.spaces.models import Space
from dashboard.rollups.fold import keep_rollups
from memory.feedback.models import Vote
from memory.questions.evaluations import settings_key
from memory.questions.models import Evaluation, QuestionSet
from memory.questions.sets import create_set
from tests import factories
from tests.dashboard.conftest import html_of, squeezed
from tests.dashboard.pages.overview.test_figures import log_row
from tests.dashboard.pages.overview.test_overview import tile_of
from tests.factories import NOW

pytestmark = pytest.mark.usefixtures("noon")


def card_of(html: str, slug: str) -> str:
    return html.split(f'id="saving-{slug}"')[1].split("</section>")[0]


def vote(space: Space, up: int, down: int, at: datetime) -> None:
    assembly = log_row(space, at)
    Vote.objects.bulk_create(
        Vote(
            team=space.team, assembly=assembly, rater=f"rater:{at}:{number}", space=space, stage=4,
            rating="up" if number < up else "down", created_at=at, config_version=1,
        )
        for number in range(up + down)
    )  # fmt: skip


def test_fewer_liked_answers_turn_the_card_amber(owner_client: Client, logged: Space) -> None:
    vote(logged, 90, 10, NOW - timedelta(days=20))
    vote(logged, 60, 40, NOW - timedelta(days=3))
    with time_machine.travel(NOW - timedelta(days=4)):
        publish_settings(space=logged, created_by="user:ada", max_records=12)
    html = html_of(owner_client, "/")
    card = card_of(html, "space")
    assert card.count(">worse<") == 1
    assert ">worse<" in tile_of(html, "liked")
    assert "of 100 votes, ± 9 pt" in tile_of(html, "liked")
    alarm = card.split('class="alarm"')[1]
    assert "Upvoted answers down 30.0 pt" in alarm
    assert f"Last change: Config v2 for {logged.name} published by ada." in alarm
    rows = html_of(owner_client, unescape(alarm.split('href="')[1].split('"')[0]))
    assert "40 votes" in rows or rows.count("<tr") > 40


def test_a_difference_within_chance_stays_white(owner_client: Client, logged: Space) -> None:
    vote(logged, 90, 10, NOW - timedelta(days=20))
    vote(logged, 85, 15, NOW - timedelta(days=3))
    card = card_of(html_of(owner_client, "/"), "space")
    assert "alarm" not in card
    assert ">worse<" not in card
    assert "▼" in card


def test_few_votes_say_their_number_and_are_not_compared(owner_client: Client, logged: Space) -> None:
    vote(logged, 10, 0, NOW - timedelta(days=20))
    vote(logged, 0, 10, NOW - timedelta(days=3))
    tile = tile_of(html_of(owner_client, "/"), "liked")
    assert "of 10 votes, too few to compare" in tile
    assert "▼" not in tile


def test_more_empty_contexts_are_worse(owner_client: Client, logged: Space) -> None:
    none = {"records_filtered": 0, "records_included": 0, "over_record_limit": 0}
    for number in range(20):
        log_row(logged, NOW - timedelta(days=20, minutes=number))
        log_row(logged, NOW - timedelta(days=1, minutes=number), **none)
    assert ">worse<" in tile_of(html_of(owner_client, "/"), "empty")


def test_without_agents_there_is_no_card_of_theirs(owner_client: Client, logged: Space) -> None:
    assert "saving-agents" not in html_of(owner_client, "/")
    log_row(logged, NOW - timedelta(minutes=1), kind="retry", stage=None)
    assert "saving-agents" in html_of(owner_client, "/")


def test_each_active_filter_is_a_chip_that_removes_it(owner_client: Client, logged: Space) -> None:
    log_row(logged, NOW - timedelta(minutes=1), model="<b>gpt</b>")
    html = squeezed(html_of(owner_client, "/?range=7d&space=support&model=%3Cb%3Egpt%3C/b%3E"))
    assert "Space: <strong>Support notes</strong>" in html
    assert "Model: <strong>&lt;b&gt;gpt&lt;/b&gt;</strong>" in html
    chips = [unescape(part.split('"')[0]) for part in html.split('<a class="chip on" href="')[1:]]
    assert chips == ["?range=7d&model=%3Cb%3Egpt%3C%2Fb%3E", "?range=7d&space=support"]
    assert '<a class="chip plain" href="?range=7d"' in html


def test_no_filter_no_chip(owner_client: Client, logged: Space) -> None:
    html = html_of(owner_client, "/?range=7d")
    assert "chip on" not in html
    assert "Clear filters" not in html


def test_what_changed_is_listed_and_marked_on_charts(owner_client: Client, logged: Space) -> None:
    assert "No settings were published" in html_of(owner_client, "/")
    with time_machine.travel(NOW - timedelta(minutes=1)):
        publish_settings(space=logged, created_by="user:ada", max_records=12)
    log_row(logged, NOW - timedelta(minutes=1), model="new-model")
    keep_rollups()
    html = html_of(owner_client, "/")
    assert "Record limit 20 → 12" in html.split('id="changed-title"')[1]
    assert "First prompts for new-model" in html
    assert "2 changes" in html.split('id="chart-data"')[1]


def test_changes_of_another_team_are_not_shown(owner_client: Client, logged: Space) -> None:
    other = factories.make_space(factories.make_team("other"))
    with time_machine.travel(NOW - timedelta(minutes=1)):
        publish_settings(space=other, created_by="user:eve", max_records=9)
    assert "published by eve" not in html_of(owner_client, "/")


def evaluate(found: QuestionSet, recall: float, at: datetime, **values: object) -> None:
    settings = found.space.configs.active().get().settings
    Evaluation.objects.create(**{
        "question_set": found, "config_version": 1, "settings": {}, "settings_key": settings_key(settings),
        "state": "done", "questions": 100, "asked": 100, "recall": recall, "precision": 0.1,
        "tokens_mean": 900, "created_at": at, **values,
    })  # fmt: skip


def test_the_recall_on_question_sets_stands_beside_the_saving(owner_client: Client, logged: Space) -> None:
    assert "no question set yet; make one from reviews" in tile_of(html_of(owner_client, "/"), "recall")
    found = create_set(space=logged, name="Facts", actor="test")
    assert "not evaluated under the active settings" in tile_of(html_of(owner_client, "/"), "recall")
    evaluate(found, 0.9, NOW - timedelta(days=20))
    evaluate(found, 0.7, NOW - timedelta(days=1))
    # Neither a draft nor another budget says anything about the active settings.
    evaluate(found, 0.1, NOW - timedelta(hours=2), config_version=None, settings_key="another")
    evaluate(found, 0.2, NOW - timedelta(hours=1), context_tokens=500)
    saved = draft_settings(space=logged, created_by="test", max_records=3)
    evaluate(found, 0.3, NOW - timedelta(minutes=9), config_version=saved.version, settings_key="another")
    html = html_of(owner_client, "/")
    tile = tile_of(html, "recall")
    assert ">70" in tile
    assert "of 100 questions, last evaluation" in tile
    assert "20.0 pt" in tile
    assert ">worse<" in tile
    assert "Recall on question sets down 20.0 pt" in card_of(html, "space")


def test_a_draft_counts_once_its_settings_are_active(owner_client: Client, logged: Space) -> None:
    found = create_set(space=logged, name="Facts", actor="test")
    evaluate(found, 0.8, NOW - timedelta(hours=1), config_version=None)
    assert "of 100 questions" in tile_of(html_of(owner_client, "/"), "recall")


def test_the_recall_is_of_the_settings_active_at_each_end_of_the_period(
    owner_client: Client, logged: Space
) -> None:
    found = create_set(space=logged, name="Facts", actor="test")
    other = create_set(space=factories.make_space(logged.team, "other"), name="Facts", actor="test")
    evaluate(found, 0.9, NOW - timedelta(days=50))
    with time_machine.travel(NOW - timedelta(days=45)):
        publish_settings(space=logged, created_by="test", max_records=12)
    evaluate(found, 0.8, NOW - timedelta(days=44), config_version=2)
    with time_machine.travel(NOW - timedelta(days=2)):
        activate_config(space=logged, version=1)
    evaluate(found, 0.7, NOW - timedelta(days=1))
    # The same settings in another space, and a comparison with a version that is not active.
    evaluate(other, 0.1, NOW - timedelta(hours=2), config_version=None, settings_key="another")
    evaluate(found, 0.2, NOW - timedelta(hours=1), config_version=2, settings_key="another")
    tile = tile_of(html_of(owner_client, "/?range=30d"), "recall")
    assert ">70" in tile
    assert "of 100 questions" in tile
    assert "10.0 pt" in tile
    log_row(logged, NOW - timedelta(days=42))
    keep_rollups()
    past = (
        f"/?range=custom&first={NOW - timedelta(days=44):%Y-%m-%d}&last={NOW - timedelta(days=40):%Y-%m-%d}"
    )
    assert ">80" in tile_of(html_of(owner_client, past), "recall")


def test_other_filters_hide_the_recall(owner_client: Client, logged: Space) -> None:
    assert 'id="tile-recall"' not in html_of(owner_client, "/?stage=4")
