"""The first card: what it answers, when it is amber, and the filters' chips."""

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
from memory.questions.sets import create_set, set_minimum
from tests import factories
from tests.dashboard.conftest import html_of, squeezed
from tests.dashboard.pages.overview.test_figures import log_row
from tests.dashboard.pages.overview.test_overview import tile_of
from tests.factories import NOW

pytestmark = pytest.mark.usefixtures("noon")


def card_of(html: str) -> str:
    """Return the first card, with its alarm."""
    return squeezed(html.split('id="answers"')[1].split("</section>")[0])


def answer_of(html: str, slug: str) -> str:
    answer = html.split(f'id="answer-{slug}"')[1].split("</article>")[0]
    return squeezed(answer).replace("\N{NO-BREAK SPACE}", " ")


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
    assert '<p class="sentence"><svg' in answer_of(html, "enough")
    assert "Less since 12 Jun: 60 % of votes are upvotes; it was 90 %." in answer_of(html, "enough")
    assert ">worse<" in tile_of(html, "liked")
    assert "of 100 votes, ± 9 pt" in tile_of(html, "liked")
    alarm = card_of(html).split('class="alarm"')[1]
    assert "Upvotes fell beyond chance on 12 Jun." in alarm
    assert f"Last change before: Config v2 for {logged.name} published by ada, 11 Jun." in alarm
    rows, change = (unescape(part.split('"')[0]) for part in alarm.split('href="')[1:])
    listed = html_of(owner_client, rows)
    assert "40 votes" in listed or listed.count("<tr") > 40
    assert change == f"/spaces/{logged.slug}/settings/"


def test_a_difference_within_chance_stays_white(owner_client: Client, logged: Space) -> None:
    vote(logged, 90, 10, NOW - timedelta(days=20))
    vote(logged, 85, 15, NOW - timedelta(days=3))
    html = html_of(owner_client, "/")
    assert "alarm" not in card_of(html)
    assert "85 % of votes are upvotes." in answer_of(html, "enough")
    assert ">100 votes</a>, no change beyond chance" in answer_of(html, "enough")
    assert ">worse<" not in html
    assert "▼" in tile_of(html, "liked")


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
    html = html_of(owner_client, "/")
    assert ">worse<" in tile_of(html, "empty")
    assert "Less since 14 Jun: 37.0 % of contexts are empty; it was 0.0 %." in answer_of(html, "enough")
    assert "Empty contexts</a>" in card_of(html).split('class="alarm"')[1]
    # Nothing was published, so the other link is the list of changes.
    assert 'href="#changed"' in card_of(html)


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
    assert "contexts hold 70 % of the expected records; it was 90 %." in answer_of(html, "enough")


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
    log_row(logged, NOW - timedelta(minutes=1), kind="retry", stage=None)
    html = html_of(owner_client, "/?kind=retry")
    assert 'id="tile-recall"' not in html
    # The part about money exists only for contexts of spaces.
    assert "#more-money" not in html


def test_a_recall_below_its_minimum_is_amber_even_within_chance(owner_client: Client, logged: Space) -> None:
    found = create_set(space=logged, name="Facts", actor="test")
    set_minimum(question_set=found, min_recall=0.8, actor="test")
    evaluate(found, 0.81, NOW - timedelta(days=20))
    evaluate(found, 0.81, NOW - timedelta(days=6))
    assert "Yes: 81 % of the expected records were sent." in answer_of(html_of(owner_client, "/"), "enough")
    # A comparison with other settings does not end the spell.
    evaluate(found, 0.79, NOW - timedelta(days=4))
    evaluate(found, 0.9, NOW - timedelta(days=3), config_version=None, settings_key="another")
    evaluate(found, 0.79, NOW - timedelta(days=2))
    html = html_of(owner_client, "/")
    said = "Not since 11 Jun: contexts hold 79 % of the expected records; the minimum is 80 %."
    assert said in answer_of(html, "enough")
    assert ">100 questions</a>, 13 Jun" in answer_of(html, "enough")
    alarm = card_of(html).split('class="alarm"')[1]
    assert "Recall on “Facts” fell below its minimum on 11 Jun." in alarm
    assert f'href="/questions/{found.pk}/"' in alarm
    assert ">worse<" in tile_of(html, "recall")


def test_a_recall_that_never_reached_its_minimum_did_not_fall(owner_client: Client, logged: Space) -> None:
    found = create_set(space=logged, name="Facts", actor="test")
    set_minimum(question_set=found, min_recall=0.8, actor="test")
    evaluate(found, 0.5, NOW - timedelta(days=30))
    html = html_of(owner_client, "/")
    assert "Not yet: contexts hold 50 %" in answer_of(html, "enough")
    assert "below its minimum since its first evaluation on 16 May." in card_of(html)


def test_sets_that_are_new_do_not_make_the_recall_fall(owner_client: Client, logged: Space) -> None:
    easy = create_set(space=logged, name="Easy", actor="test")
    evaluate(easy, 0.9, NOW - timedelta(days=20))
    evaluate(create_set(space=logged, name="Hard", actor="test"), 0.5, NOW - timedelta(days=1))
    html = html_of(owner_client, "/")
    assert "alarm" not in card_of(html)
    assert "70 % of the expected records were sent." in answer_of(html, "enough")
    assert "no change" in tile_of(html, "recall")


def test_each_answer_says_its_n(owner_client: Client, logged: Space) -> None:
    html = html_of(owner_client, "/")
    assert "Nobody has judged yet. All 34 contexts held records." in answer_of(html, "enough")
    assert "Write five questions with known answers</a>" in answer_of(html, "enough")
    cost = answer_of(html, "cost")
    assert "400 tokens a context, with 20 % fewer tokens than the last 10 records." in cost
    assert ">13.6 k tokens</a> in all, in 34 contexts" in cost
    speed = answer_of(html, "speed")
    assert "Fast: 95 of 100 space contexts were ready in 5.0 ms." in speed
    assert "Measured on <a" in speed
    assert ">34 space contexts</a>; well below the target" in speed


def test_a_slow_kind_is_not_amber(owner_client: Client, space: Space) -> None:
    for _ in range(20):
        log_row(space, NOW - timedelta(minutes=1), assembly_ms=900.0)
    for _ in range(20):
        log_row(space, NOW - timedelta(minutes=1), kind="retry", stage=None, assembly_ms=3.0)
    html = html_of(owner_client, "/")
    assert "Slow: 95 of 100 space contexts took up to 900 ms; the target is 500 ms." in answer_of(
        html, "speed"
    )
    assert ">Retry deltas</a> have a time of their own: p95 3.0 ms" in answer_of(html, "speed")
    assert "alarm" not in card_of(html)
    html = html_of(owner_client, "/?kinds=retry")
    assert "Fast: 95 of 100 retry deltas were ready in 3.0 ms." in answer_of(html, "speed")


def test_gains_and_losses_of_spaces_stand_apart(owner_client: Client, logged: Space) -> None:
    other = factories.make_space(logged.team, "sales", name="Sales calls")
    log_row(other, NOW - timedelta(minutes=1), tokens_before=100, tokens_after=1_900)
    for is_folded in (False, True):
        if is_folded:
            keep_rollups()
        html = html_of(owner_client, "/")
        cost = answer_of(html, "cost")
        # 14 contexts saved 100 tokens of 500 each.
        assert ">Support notes</a> took 20 % fewer tokens" in cost
        assert ">Sales calls</a> took 1,800 % more tokens" in cost
        assert "1,400" in tile_of(html, "saved")
        assert "1,800" in tile_of(html, "costly")
        # Their sum would hide both.
        assert 'id="tile-month"' not in html
        table = squeezed(html.split('aria-label="Spaces that gained and lost"')[1].split("</table>")[0])
        assert table.index("Support notes") < table.index("Sales calls")
        assert '<td class="n">+1,400</td>' in table and '<td class="n">−1,800</td>' in table
    assert "tile-costly" not in html_of(owner_client, "/?space=sales")
