import csv
import json
from datetime import timedelta
from itertools import pairwise
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pytest
from django.core.serializers.json import DjangoJSONEncoder
from django.test import Client
from django.urls import reverse

from contextopt.agents.models import PhaseProfile
from contextopt.assemblies.corrections import Correction
from contextopt.assemblies.models import Assembly, AssemblyPayload, Kind
from contextopt.engine.agents.contexts import AgentContext
from contextopt.people.models import Team
from dashboard.kit.charts.plots import LABEL_HEIGHT
from dashboard.kit.diffs import mark_left_out, split_sections
from dashboard.kit.periods import recent_period
from dashboard.pages.agents.charts import PHASE_CHARTS, PhaseData
from dashboard.pages.agents.figures import (
    PHASES_TOLD,
    PhaseFigures,
    PhaseSeries,
    read_phase_series,
)
from dashboard.rollups.queries import FigureFilter
from tests import factories
from tests.dashboard.conftest import HTMX, figures_of, html_of
from tests.factories import NOW
from tests.queries import count_at_2_and_20

pytestmark = pytest.mark.usefixtures("noon")

URL = "/phases/"
PROFILE = "/phases/profile/"


def log_filtering(team: Team, phase: str = "building", **overrides: object) -> Assembly:
    """Write a log row with the given numbers."""
    numbers = {
        "tokens_before": 1_000, "tokens_after": 400, "tokens_available": 50_000, "truncated": False,
        "assembly_ms": 5.0, "as_of": NOW, "created_at": NOW - timedelta(minutes=1),
        "encoding": "cl100k_base", "tokenizer_version": "1", "sha256": "ab" * 32,
    }  # fmt: skip
    return Assembly.objects.create(team=team, kind="phase", phase=phase, **{**numbers, **overrides})


def ask(team: Team, phase: str | None = None) -> PhaseSeries:
    return read_phase_series(
        FigureFilter(team.pk, recent_period("14d", NOW, ZoneInfo("UTC")), kind=Kind.PHASE, phase=phase)
    )


# The numbers


def test_sums_are_those_of_the_rows(team: Team, other_team: Team) -> None:
    log_filtering(team, truncated=True)
    log_filtering(team, tokens_after=1_000, created_at=NOW - timedelta(days=3))
    log_filtering(team, "planning", tokens_after=0)
    log_filtering(team, "planning", created_at=NOW - timedelta(days=40))
    log_filtering(other_team)
    series = ask(team)
    assert series.total == PhaseFigures(3, 3_000, 1_400, 1)
    assert series.by_phase == {
        "building": PhaseFigures(2, 2_000, 1_400, 1), "planning": PhaseFigures(1, 1_000, 0, 0)
    }  # fmt: skip
    assert [number for number, point in enumerate(series.points["building"]) if point.filterings] == [10, 13]
    assert ask(team, "planning").total.filterings == 1
    assert series.phases == ["planning", "building"]


def test_past_the_most_used_phases_are_not_told_apart(team: Team) -> None:
    for number in range(PHASES_TOLD + 5):
        log_filtering(team, f"own-{number:02}")
    series = ask(team)
    assert len(series.by_phase) == PHASES_TOLD + 1
    assert series.by_phase[""].filterings == 5
    assert series.phases[-1] == ""
    data = PhaseData.of(series, lambda phase: "/")
    assert [line.name for line in data.lines][-1] == "others"
    for chart in PHASE_CHARTS.values():
        *named, others = chart.build(data).traces
        assert all("customdata" in trace for trace in named) and "customdata" not in others
    assert sum((line.points[-1] for line in data.lines), PhaseFigures()).filterings == PHASES_TOLD + 5


def test_a_default_phase_is_always_of_one_colour(team: Team) -> None:
    log_filtering(team, "reviewing")
    alone = {line.phase: line.colour for line in PhaseData.of(ask(team), lambda phase: "/").lines}
    log_filtering(team, "confidence")
    log_filtering(team, "audit")
    both = {line.phase: line.colour for line in PhaseData.of(ask(team), lambda phase: "/").lines}
    assert both["reviewing"] == alone["reviewing"]
    assert len(set(both.values())) == 3


@pytest.mark.parametrize("slug", PHASE_CHARTS)
def test_figures_are_json_without_a_theme(slug: str, team: Team) -> None:
    for phase in ("planning", "building", "audit"):
        log_filtering(team, phase, tokens_after=1_500)
    figure = PHASE_CHARTS[slug].build(PhaseData.of(ask(team), lambda phase: f"/{phase}?")).to_plotly_json()
    text = json.dumps(figure, cls=DjangoJSONEncoder, allow_nan=False)
    assert "#" not in text
    assert {trace["name"] for trace in figure["data"]} == {"planning", "building", "audit"}
    assert figure["data"][0]["meta"] == {"rows": "/planning?"}


def test_a_name_is_no_markup(team: Team) -> None:
    log_filtering(team, '<a href="https://evil.example">sign in</a> & go', tokens_after=1_500)
    for chart in PHASE_CHARTS.values():
        figure = chart.build(PhaseData.of(ask(team), lambda phase: "/")).to_plotly_json()
        drawn = [trace["name"] for trace in figure["data"]]
        drawn += [note["text"] for note in figure["layout"].get("annotations", [])]
        assert {text.count("<") for text in drawn} == {0}
        assert "sign in&lt;/a&gt; &amp; go" in drawn[0]


def test_names_of_lines_do_not_run_into_each_other(team: Team) -> None:
    for phase in ("planning", "building", "diagnosis", "reviewing"):
        log_filtering(team, phase, tokens_after=0)
    figure = PHASE_CHARTS["share"].build(PhaseData.of(ask(team), lambda phase: "/")).to_plotly_json()
    heights = sorted(note["y"] for note in figure["layout"]["annotations"])
    assert all(above - below > LABEL_HEIGHT * 0.99 for below, above in pairwise(heights))
    assert heights[-1] <= 1


# The page


def test_an_empty_team_is_told_what_to_do(owner_client: Client, team: Team) -> None:
    html = html_of(owner_client, URL)
    assert "No filtered contexts yet" in html
    assert "/api/v1/phases/building/filter" in html
    assert "manage.py filter_phase" in html
    assert html.count('<span class="faint">default</span>') == 6


def test_tiles_charts_profiles_and_filterings(owner_client: Client, team: Team) -> None:
    factories.make_profile(team, "planning", budget_tokens=1_234)
    log_filtering(team)
    log_filtering(team, "unheard-of", tokens_after=1_000, truncated=True)
    html = html_of(owner_client, URL)
    assert 'id="tile-share"' in html
    assert set(figures_of(html)) == set(PHASE_CHARTS)
    assert "1,234" in html
    assert "no profile, sent unchanged" in html
    assert "600" in html
    assert '<span class="tag">trimmed</span>' in html


def test_an_empty_period_says_so(owner_client: Client, team: Team) -> None:
    log_filtering(team, created_at=NOW - timedelta(days=20))
    html = html_of(owner_client, URL)
    assert "No filtered contexts in this period" in html
    assert "curl" not in html


def test_filters_narrow_and_go_into_the_address(owner_client: Client, team: Team) -> None:
    log_filtering(team, "planning")
    log_filtering(team, "building")
    headers = {**HTMX, "HX-Target": "phases"}
    response = owner_client.get(f"{URL}?range=7d&phase=planning&first=&last=", headers=headers)
    assert response.headers["HX-Push-Url"] == "/phases/?range=7d&phase=planning"
    html = response.content.decode()
    assert html.count('<th scope="row"><a class="link" data-row href="/assemblies/') == 1


@pytest.mark.parametrize("query", ["range=1y", "phase=" + "x" * 65, "phase=%00", "range=custom", "before=x"])
def test_filters_that_make_no_sense_show_the_default(query: str, owner_client: Client, team: Team) -> None:
    log_filtering(team)
    assert "tile-share" in html_of(owner_client, f"{URL}?{query}")


def test_partials_are_parts_of_the_page(partial, team: Team) -> None:
    log_filtering(team)
    assert 'id="id_phase"' in partial(URL, "phases")
    assert 'id="id_phase"' not in partial(URL, "filterings")


def test_filterings_come_in_pages(owner_client: Client, team: Team) -> None:
    made = {log_filtering(team, created_at=NOW - timedelta(minutes=n)).pk for n in range(1, 31)}
    html = html_of(owner_client, URL)
    cursor = html.split("before=")[1].split('"')[0]
    older = html_of(owner_client, f"{URL}?before={cursor}")
    seen = [
        int(part.split("/")[0])
        for page in (html, older)
        for part in page.split('href="/assemblies/')[1:]
        if part[0].isdigit()
    ]
    assert sorted(seen) == sorted(made)


def test_a_bar_leads_to_its_filterings(owner_client: Client, team: Team) -> None:
    wanted = log_filtering(team)
    log_filtering(team, "planning")
    figures = figures_of(html_of(owner_client, URL))
    bar = next(trace for trace in figures["saved"]["data"] if trace["name"] == "building")
    html = html_of(owner_client, f"{bar['meta']['rows']}{bar['customdata'][-1]}")
    assert html.count('<th scope="row"><a') == 1
    assert f"/assemblies/{wanted.pk}/" in html


def test_csv_has_the_charts_numbers(owner_client: Client, team: Team) -> None:
    log_filtering(team)
    log_filtering(team, "planning", tokens_after=1_100)
    response = owner_client.get(reverse("dashboard:phases_csv", args=["saved"]))
    rows = list(csv.reader(b"".join(response.streaming_content).decode().splitlines()))
    assert rows[0] == ["start", "end", "filterings", "planning", "building"]
    assert rows[-1][2:] == ["2", "-100", "600"]
    assert owner_client.get(reverse("dashboard:phases_csv", args=["magic"])).status_code == 404


def test_as_many_queries_for_twenty_as_for_two(owner_client: Client, team: Team) -> None:
    def log_one() -> None:
        log_filtering(team, f"phase-{Assembly.objects.count()}")

    # the frame's four, figures, figures of the period before, the page, the profiles
    assert count_at_2_and_20(lambda: html_of(owner_client, URL), log_one) == [8, 8]


# A phase's settings


def send(client: Client, phase: str, **values: object):
    data = {"budget_tokens": 900, "fields": ["files", "docs"], "note": "less", **values}
    return client.post(f"{PROFILE}?{urlencode({'phase': phase})}", data)


def test_an_editor_publishes_the_next_version(editor_client: Client, team: Team) -> None:
    assert send(editor_client, "building").status_code == 302
    assert send(editor_client, "building", budget_tokens=800, fields=[]).status_code == 302
    newest = PhaseProfile.objects.get(is_active=True)
    assert (newest.version, newest.budget_tokens, newest.fields) == (2, 800, [])
    assert newest.created_by == "user:edda"
    html = html_of(editor_client, f"{PROFILE}?phase=building")
    assert "<del>900</del> <ins>800</ins>" in html
    assert "− files, docs" in html
    assert '<strong>Default</strong><span class="faint">built in</span>' in html


def test_what_was_not_changed_makes_no_version(editor_client: Client, team: Team) -> None:
    send(editor_client, "building", budget_tokens=50_000, fields=["files", "package_manifest"])
    assert not PhaseProfile.objects.exists()


@pytest.mark.parametrize(
    "values",
    [{"budget_tokens": -1}, {"budget_tokens": ""}, {"budget_tokens": 10**10}, {"fields": ["magic"]},
     {"note": "x" * 201}, {"note": "\x00"}],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(values: dict, editor_client: Client, team: Team) -> None:
    response = send(editor_client, "building", **values)
    assert response.status_code == 422
    assert 'role="alert"' in response.content.decode()
    assert not PhaseProfile.objects.exists()


@pytest.mark.parametrize("name", ["security review", "a/b", "line\nbreak", "æøå", ".."])
def test_a_phase_of_ones_own(name: str, editor_client: Client, team: Team) -> None:
    log_filtering(team, name)
    address = f"{PROFILE}?{urlencode({'phase': name})}"
    assert "no profile yet" in html_of(editor_client, address)
    assert send(editor_client, name).status_code == 302
    assert PhaseProfile.objects.get(is_active=True).phase == name
    html_of(editor_client, URL)
    assert "no profile yet" not in html_of(editor_client, address)


@pytest.mark.parametrize("name", ["", " ", "x" * 65, "\x00"])
def test_a_name_that_no_phase_can_have(name: str, editor_client: Client, team: Team) -> None:
    assert editor_client.get(f"{PROFILE}?{urlencode({'phase': name})}").status_code == 404


def test_an_earlier_version_is_activated_again(editor_client: Client, team: Team) -> None:
    factories.make_profile(team, "building", budget_tokens=1)
    factories.make_profile(team, "building", budget_tokens=2)
    addresses = {
        n: f"{reverse('dashboard:phase_activate', args=[n])}?phase=building" for n in (1, 2, 9, 10**14)
    }
    html = editor_client.post(addresses[1], follow=True).content.decode()
    assert PhaseProfile.objects.get(is_active=True).budget_tokens == 1
    assert f'action="{addresses[2]}"' in html.partition('id="toasts"')[2]
    editor_client.post(addresses[2])
    assert PhaseProfile.objects.get(is_active=True).budget_tokens == 2
    for version in (9, 10**14):
        assert editor_client.post(addresses[version]).status_code == 404


def test_viewers_read_and_do_not_change(teammate_client: Client, team: Team) -> None:
    html = html_of(teammate_client, f"{PROFILE}?phase=building")
    assert "read-only" in html
    assert "Publish as a new version" not in html


def test_settings_are_the_teams_own(editor_client: Client, team: Team, other_team: Team) -> None:
    factories.make_profile(other_team, "building", budget_tokens=77)
    assert 'value="50000"' in html_of(editor_client, f"{PROFILE}?phase=building")


# One filtering, in the Inspector


def test_a_filtering_is_shown_beside_the_full_context(owner_client: Client, team: Team) -> None:
    factories.make_profile(team, "building", budget_tokens=400, fields=["files", "memories"])
    context = AgentContext(
        tree="src/\n", files=factories.make_agent_context().files[:2], memories=("one", "two"), task="Do <it>"
    )
    result = factories.make_filtering(team, "building", context=context)
    html = html_of(owner_client, f"/assemblies/{result.id}/")
    assert "not used in this phase" in html
    assert "over the budget: 2 left out" in html
    assert '<span class="gone">− ## Tree\n− src/\n' in html
    assert "verified now" in html
    assert "building v1" in html
    assert "Do &lt;it&gt;" in html


def test_a_corrected_saving_says_why(owner_client: Client, team: Team) -> None:
    result = factories.make_filtering(team, "building")
    url = f"/assemblies/{result.id}/"
    assert "<dt>Corrected</dt>" not in html_of(owner_client, url)
    Correction.objects.create(assembly_id=result.id, reason="marks", tokens_before=4_321)
    html = html_of(owner_client, url)
    assert "<dt>Corrected</dt>" in html
    assert "not part of the full context; compared with 4,321 tokens before" in html


def test_an_unknown_phase_and_one_that_keeps_nothing(owner_client: Client, team: Team) -> None:
    unknown = html_of(owner_client, f"/assemblies/{factories.make_filtering(team, 'unheard-of').id}/")
    assert "<p>The phase &#x27;unheard-of&#x27; has no profile: the context is unchanged.</p>" in unknown
    assert 'class="gone"' not in unknown
    nothing = html_of(owner_client, f"/assemblies/{factories.make_filtering(team, 'completing').id}/")
    assert "No field was kept" in nothing


def test_the_full_context_can_be_read_raw(owner_client: Client, team: Team) -> None:
    result = factories.make_filtering(team, "diagnosis")
    payload = AssemblyPayload.objects.get(pk=result.id)
    url = f"/assemblies/{result.id}/text"
    assert owner_client.get(url).content.decode() == payload.text
    assert owner_client.get(f"{url}?of=before").content.decode() == payload.baseline_text


def test_a_filtering_without_payload_shows_its_figures(owner_client: Client, team: Team) -> None:
    assert "Text no longer stored" in html_of(owner_client, f"/assemblies/{log_filtering(team).pk}/")


def test_assemblies_of_a_kind(owner_client: Client, team: Team, assembly: Assembly) -> None:
    row = log_filtering(team)
    html = html_of(owner_client, "/assemblies/?kind=phase")
    assert f"/assemblies/{row.pk}/" in html
    assert f"/assemblies/{assembly.pk}/" not in html
    assert 'role="alert"' in html_of(owner_client, "/assemblies/?kind=magic")


def test_sections_of_a_text_and_what_is_left_of_them() -> None:
    context = AgentContext(tree="a\n## Docs\nb", docs=("one\ntwo", "three"), tools=({"name": "t"},))
    text = context.render()
    assert list(split_sections(text)) == ["tree", "docs", "tools"]
    assert "".join(split_sections(text).values()) == text
    marked = mark_left_out(text, AgentContext(docs=("one\n",)).render())
    kept = "".join(run.text for run in marked.runs if run.state == "kept")
    assert kept == "  ## Docs\n  > one\n"
    assert split_sections("") == {}
    assert mark_left_out("", "").runs == ()
