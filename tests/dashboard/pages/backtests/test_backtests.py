import csv
import json
import re
from decimal import Decimal
from statistics import median

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from contextopt.assemblies.purge import purge_record
from dashboard.kit.formats import money, percent
from dashboard.pages.spaces.proofs import begin_version_proofs
from dashboard.rollups.models import ModelPrice
from memory.backtests.backtests import BACKTESTS, start_backtest
from memory.backtests.figures import costs_of, figures_of
from memory.backtests.inputs import BacktestIn
from memory.backtests.models import Backtest, BacktestRow
from memory.questions.models import QuestionSet
from memory.questions.sets import set_minimum
from tests.dashboard.conftest import HTMX, html_of, squeezed
from tests.memory.backtests.conftest import ask, ask_all, asked, draft, make_draft, talk
from tests.memory.questions.conftest import make_questions

__all__ = ["asked", "draft", "talk"]

pytestmark = pytest.mark.django_db


def run(space, config, last=200) -> Backtest:
    found = start_backtest(space=space, data=BacktestIn(config=config.version, last=last), actor="test")
    BACKTESTS.complete(found)
    return found


def test_an_empty_list_says_what_to_do(owner_client, space) -> None:
    html = html_of(owner_client, "/backtests/")
    assert "No backtests yet" in html
    assert "manage.py backtest SPACE --config VERSION" in html
    assert "Start backtest" not in html


def test_a_draft_is_backtested_from_the_settings_page(owner_client, space, asked, draft) -> None:
    html = html_of(owner_client, f"/spaces/{space.slug}/settings/")
    assert f"/backtests/?space={space.slug}&amp;config={draft.version}" in html
    form = html_of(owner_client, f"/backtests/?space={space.slug}&config={draft.version}")
    assert re.search(rf'<option value="{draft.version}" selected>v{draft.version}, draft', form)
    response = owner_client.post(
        f"/backtests/?space={space.slug}", {"config": draft.version, "last": 3}, follow=True
    )
    html = response.content.decode()
    assert "fewer tokens" in html
    assert "of 3" in html
    assert Backtest.objects.get().created_by == "user:olga"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"config": 9, "last": 3}, "Select a valid choice"),
        ({"config": 2, "last": 5_001}, "less than or equal to 5000"),
        ({"config": 2}, "required"),
    ],
)
def test_a_bad_form_says_why(owner_client, space, asked, draft, data, words) -> None:
    response = owner_client.post(f"/backtests/?space={space.slug}", data)
    assert response.status_code == 422
    assert words in response.content.decode()


def test_a_space_without_contexts_says_so(owner_client, space, draft) -> None:
    response = owner_client.post(f"/backtests/?space={space.slug}", {"config": draft.version, "last": 3})
    assert response.status_code == 422
    assert "no logged contexts yet" in response.content.decode()


def test_shows_figures_rows_and_the_changed_settings(owner_client, space, asked, draft) -> None:
    make_questions(space)
    found = run(space, draft)
    html = html_of(owner_client, f"/backtests/{found.pk}/")
    assert f"keeps {sum(row.evidence_after for row in found.rows.all())} of the 4 records" in html
    assert "<dt>Record limit for questions</dt>" in html
    for row in found.rows.all():
        assert f"/assemblies/{row.assembly_id}/what-if/?config={draft.version}" in html
        assert f"{row.tokens_before} → {row.tokens_after}" in html


@pytest.mark.parametrize(
    ("recall", "minimum", "words"),
    [
        (1.0, None, "stays at 100.0 %<"),
        (0.4, None, "goes from 100.0 % to 40.0 %<"),
        (0.4, 0.4, "goes from 100.0 % to 40.0 % and reaches the minimum<"),
        (0.4, 0.5, "goes from 100.0 % to 40.0 %, below the minimum of “Small talk”<"),
    ],
)
def test_the_headline_names_the_recall_on_question_sets(
    owner_client, space, asked, draft, recall, minimum, words
) -> None:
    questions = make_questions(space)
    set_minimum(question_set=questions, min_recall=minimum, actor="test")
    found = run(space, draft)
    assert "Recall on the question set" not in html_of(owner_client, f"/backtests/{found.pk}/")
    (proof,) = begin_version_proofs(space, draft, "test").rows
    questions.evaluations.filter(pk=proof.draft.pk).update(recall=recall)
    assert f". Recall on the question set {words}" in html_of(owner_client, f"/backtests/{found.pk}/")


def island_of(html: str) -> tuple[list, list]:
    """Return the lists and the traces of a backtest's chart."""
    island = json.loads(re.search(r'id="chart-data"[^>]*>(.*?)</script>', html).group(1))
    return island["lists"], island["figures"]["changes"]["data"]


def test_the_chart_counts_changes_and_its_bars_list_their_contexts(owner_client, space, asked, draft) -> None:
    found = run(space, draft)
    BacktestRow.objects.filter(pk=found.rows.latest("pk").pk).update(tokens_after=F("tokens_before"))
    lists, traces = island_of(html_of(owner_client, f"/backtests/{found.pk}/"))
    held = [trace["lists"] for trace in traces]
    every = [bar for each in held for bar in zip(lists[each["y"]], lists[each["customdata"]], strict=True)]
    bars = [bar for bar in every if bar[0] is not None]
    assert sum(contexts for contexts, _ in bars) == found.rows.count() == 4
    for contexts, address in bars:
        page = html_of(owner_client, f"/backtests/{found.pk}/{address.removesuffix('#rows')}")
        assert page.count(">Compare<") == contexts
        assert "remove this filter" in page
    assert "unchanged" in page or "fewer" in page


@pytest.mark.parametrize("query", ["least=1", "least=a&most=2", f"least={'9' * 5_000}&most=1"])
def test_wrong_bounds_show_what_changed_most(owner_client, space, asked, draft, query) -> None:
    html = html_of(owner_client, f"/backtests/{run(space, draft).pk}/?{query}")
    assert "remove this filter" not in html
    assert "Compare" in html


def test_bounds_beyond_all_changes_list_nothing(owner_client, space, asked, draft) -> None:
    html = html_of(owner_client, f"/backtests/{run(space, draft).pk}/?least={2**62}&most={2**63 - 1}")
    assert "remove this filter" in html
    assert "Compare" not in html


def test_question_sets_are_evaluated_beside_it(owner_client, teammate_client, space, asked, draft) -> None:
    questions = make_questions(space)
    page = html_of(owner_client, f"/backtests/{run(space, draft).pk}/")
    address = f"/spaces/{space.slug}/settings/{draft.version}/proof/"
    form = page.partition(f'<form hx-post="{address}"')[2].partition("</form>")[0]
    assert "csrfmiddlewaretoken" in form and f"Evaluate v{draft.version}" in form
    owner_client.post(address, headers=HTMX)
    shown = " ".join(html_of(owner_client, address).split())
    by_version = {each.config_version: each for each in questions.evaluations.done()}
    active, proposed = (by_version[version] for version in (1, draft.version))
    assert f"{percent(active.recall, 1)} → <strong>{percent(proposed.recall, 1)}</strong>" in shown
    assert f"{percent(active.precision, 1)} → {percent(proposed.precision, 1)}" in shown
    lost = [
        after.question.query
        for after in proposed.results.select_related("question")
        if after.recall < active.results.get(question=after.question).recall
    ]
    assert f"{len(lost)} less" in shown and all(query in shown for query in lost[:3])
    assert html_of(owner_client, f"/spaces/{space.slug}/settings/99/proof/", status=404)
    assert teammate_client.post(address, headers=HTMX).status_code == 403


def test_the_comparison_opens(owner_client, space, asked, draft) -> None:
    found = run(space, draft)
    html = html_of(owner_client, f"/backtests/{found.pk}/")
    addresses = set(re.findall(r'href="(/assemblies/\d+/what-if/[^"]*)"', html))
    assert len(addresses) == found.rows.count() == 4
    for address in addresses:
        row = found.rows.get(assembly_id=re.search(r"\d+", address).group())
        assert f"{row.tokens_before} → {row.tokens_after}" in html_of(owner_client, address)


def test_tabs_show_their_rows(owner_client, space, asked, talk) -> None:
    make_questions(space)
    found = run(space, make_draft(space, context_tokens=30))
    lost = html_of(owner_client, f"/backtests/{found.pk}/?show=lost")
    assert lost.count("1 of 1 lost") == 4
    assert html_of(owner_client, f"/backtests/{found.pk}/?show=empty").count('tag drop">empty') == 4
    assert "Compare" not in html_of(owner_client, f"/backtests/{found.pk}/?show=more")
    purge_record(record=talk[0], actor="test")
    skipped = run(space, make_draft(space))
    html = html_of(owner_client, f"/backtests/{skipped.pk}/?show=skipped")
    assert "No context could be replayed" in html
    assert html.count("been purged since") == 4


def test_tabs_count_their_rows(owner_client, space, asked, draft) -> None:
    found = run(space, draft)
    html = html_of(owner_client, f"/backtests/{found.pk}/")
    more = found.rows.filter(tokens_after__gt=F("tokens_before")).count()
    skipped = found.rows.exclude(reason="").count()
    assert f'More tokens <span class="faint">{more}</span>' in html
    assert f'Not replayed <span class="faint">{skipped}</span>' in html


def test_what_changed_most_leaves_out_what_did_not_change(owner_client, space, asked) -> None:
    found = run(space, make_draft(space, context_tokens=30))
    assert "Compare" in html_of(owner_client, f"/backtests/{found.pk}/")
    BacktestRow.objects.update(tokens_after=F("tokens_before"), added=[], removed=[])
    assert "Compare" not in html_of(owner_client, f"/backtests/{found.pk}/")


def test_a_running_backtest_polls_and_ends(owner_client, space, talk, draft) -> None:
    ask_all(space, rounds=3)
    found = start_backtest(space=space, data=BacktestIn(config=draft.version), actor="test")
    url = f"/backtests/{found.pk}/"
    html = html_of(owner_client, url)
    assert "0 of 12 contexts computed" in html
    assert 'hx-trigger="every 1s"' in html
    # Nothing that does not poll is shown while it changes.
    assert 'id="rows"' not in html and "plot-changes" not in html
    poll = owner_client.get(url, headers={**HTMX, "HX-Target": "progress"})
    assert squeezed(poll.content.decode()).startswith('<div id="progress"')
    BACKTESTS.complete(found)
    ended = owner_client.get(url, headers={**HTMX, "HX-Target": "progress"})
    assert ended["HX-Refresh"] == "true"


def test_cancels(owner_client, space, talk, draft) -> None:
    ask_all(space)
    found = start_backtest(space=space, data=BacktestIn(config=draft.version), actor="test")
    html = owner_client.post(f"/backtests/{found.pk}/cancel", follow=True).content.decode()
    assert "cancelled after 0 of 4 contexts" in html
    again = owner_client.post(f"/backtests/{found.pk}/cancel", follow=True).content.decode()
    assert "no longer running" in again


def test_publishes_what_was_tested(owner_client, space, asked, draft) -> None:
    found = run(space, draft)
    html = owner_client.post(f"/backtests/{found.pk}/publish", follow=True).content.decode()
    assert f"Version {draft.version} of the settings published." in html
    assert 'action="/spaces/support/settings/1/activate"' in html.partition('id="toasts"')[2]
    assert space.configs.active().get().version == draft.version
    assert f"Publish v{draft.version}" not in html


def test_publishing_goes_through_the_guard(owner_client, space, asked, talk) -> None:
    questions: QuestionSet = make_questions(space)
    set_minimum(question_set=questions, min_recall=0.9, actor="test")
    draft = make_draft(space, context_tokens=30)
    found = run(space, draft)
    html = owner_client.post(f"/backtests/{found.pk}/publish", follow=True).content.decode()
    assert "below its minimum of 90.0 %" in html
    assert space.configs.active().get().version == 1


def test_roles_and_outsiders(teammate_client, outsider_client, space, asked, draft) -> None:
    found = run(space, draft)
    assert "Publish" not in html_of(teammate_client, f"/backtests/{found.pk}/")
    assert outsider_client.get(f"/backtests/?space={space.slug}").status_code == 404


def test_questions_are_shown_as_text(owner_client, space, talk, draft) -> None:
    ask(space, "<b>Which</b> pet?")
    html = html_of(owner_client, f"/backtests/{run(space, draft).pk}/")
    assert "&lt;b&gt;Which&lt;/b&gt; pet?" in html


def test_as_many_queries_for_many_rows(owner_client, space, talk, draft) -> None:
    counts = []
    for rounds in (1, 6):
        ask_all(space, rounds=rounds)
        found = run(space, draft)
        with CaptureQueriesContext(connection) as queries:
            html_of(owner_client, f"/backtests/{found.pk}/")
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_costs_stand_beside_tokens(owner_client, space, talk, draft) -> None:
    ModelPrice.objects.create(model="own", dollars_per_million=Decimal(10), cached_read_dollars=Decimal(1))
    request = {"conversation": "c-1", "placement": "tail", "system_tokens": 2_000}
    rows = [ask(space, text, **request, model=model) for text, model in (("When?", "own"), ("Who?", "own"))]
    ask(space, "Where?", **request, model="nobody-knows-it")
    ask(space, "Why?")
    found = run(space, draft)
    costs = costs_of(found)
    assert (costs.prompts, costs.priced) == (3, 2)
    before = [(row.prompt_tokens - row.cached_tokens) * 10e-6 + row.cached_tokens * 1e-6 for row in rows]
    assert costs.before == pytest.approx(sum(before))
    fewer = sum(row.tokens_before - row.tokens_after for row in found.rows.filter(assembly__in=rows))
    assert fewer > 0
    # The contexts at the tail are new each time, on both sides.
    assert costs.before - costs.after == pytest.approx(fewer * 10e-6)
    html = html_of(owner_client, f"/backtests/{found.pk}/")
    assert "for 2 contexts with a price" in html
    assert f"{money(before[0])} → " in html
    response = owner_client.get(f"/backtests/{found.pk}/rows.csv")
    lines = list(csv.DictReader(b"".join(response.streaming_content).decode().splitlines()))
    assert [line["assembly_id"] for line in lines] == [
        str(row.assembly_id) for row in reversed(found.rows.order_by("assembly_id"))
    ]
    priced = {int(line["assembly_id"]): line for line in lines if line["dollars_before"]}
    assert set(priced) == {row.pk for row in rows}
    assert float(priced[rows[0].pk]["dollars_before"]) == pytest.approx(before[0])
    assert sum(int(line["tokens_before"]) - int(line["tokens_after"]) for line in priced.values()) == fewer


def test_the_median_stands_beside_the_mean(owner_client, space, asked, draft) -> None:
    found = run(space, draft)
    figures = figures_of(found)
    tokens = [row.tokens_after for row in found.rows.all()]
    assert figures.median_after == median(tokens)
    assert f"median {round(median(tokens)):,}" in html_of(owner_client, f"/backtests/{found.pk}/")
