import csv
import json
import re
from datetime import datetime, timedelta
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.models import Space
from dashboard.kit.responses import MAX_POLLS
from dashboard.pages.overview.charts import CHARTS
from dashboard.pages.overview.cost import project_month
from dashboard.pages.overview.figures import read_series
from dashboard.rollups.fold import keep_rollups
from dashboard.rollups.models import UnfoldedAssembly
from dashboard.templatetags.tags import chart_island
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.models import Vote
from memory.feedback.votes import give_feedback
from tests import factories
from tests.dashboard.conftest import HTMX, figures_of, html_of, squeezed
from tests.dashboard.pages.overview.test_figures import ask, log_row, settle
from tests.factories import NOW

pytestmark = pytest.mark.usefixtures("noon")


def test_tiles_show_values_changes_and_targets(owner_client: Client, logged: Space) -> None:
    html = html_of(owner_client, "/")
    assert "0.40" in html
    assert "target 80–95 %" in html
    tile = html.split('id="tile-time"')[1].split("</article>")[0]
    assert '<span class="sr">down</span>' in tile
    assert "Projected this month" in html


def tile_of(html: str, slug: str) -> str:
    return html.split(f'id="tile-{slug}"')[1].split("</article>")[0]


def test_empty_contexts_have_a_tile_that_leads_to_them(owner_client: Client, logged: Space) -> None:
    assert ">0</p>" in tile_of(html_of(owner_client, "/"), "empty")
    none = {"records_filtered": 0, "records_included": 0, "over_record_limit": 0}
    moments = [NOW - timedelta(hours=hours, minutes=1) for hours in range(4)]
    empty = {log_row(logged, moment, **none, tokens_after=9).pk for moment in moments}
    log_row(logged, NOW - timedelta(days=20), **none)
    log_row(logged, NOW - timedelta(days=20), **none)
    other = factories.make_space(logged.team, "other")
    log_row(other, moments[0], **none)
    tile = squeezed(tile_of(html_of(owner_client, "/?space=support"), "empty"))
    assert "10.5 % of 38 space contexts" in tile
    assert '<span class="bad"><span aria-hidden="true">▲</span><span class="sr">up</span> 100 %' in tile
    url = tile.split('href="')[1].split('"')[0].replace("&amp;", "&")
    assert {row.pk for row in owner_client.get(url).context["page"].rows} == empty


def test_empty_contexts_move_no_saving(owner_client: Client, logged: Space) -> None:
    before = tile_of(html_of(owner_client, "/"), "saved")
    for _ in range(20):
        log_row(
            logged, NOW - timedelta(minutes=1), records_filtered=0, records_included=0, over_record_limit=0,
            tokens_after=9,
        )  # fmt: skip
    html = html_of(owner_client, "/")
    assert ">20" in tile_of(html, "empty")
    assert tile_of(html, "saved") == before


def test_a_saving_names_its_baseline(owner_client: Client, logged: Space) -> None:
    html = html_of(owner_client, "/")
    assert "20 % fewer than the last 10 records" in tile_of(html, "saved")
    assert 'id="tile-agents"' not in html
    log_row(logged, NOW - timedelta(minutes=1), kind="handoff", stage=None)
    for _ in range(20):
        log_row(logged, NOW - timedelta(minutes=1), kind="phase", stage=None, phase="building")
    html = html_of(owner_client, "/")
    assert "20 % fewer than the last 10 records" in tile_of(html, "saved")
    assert "20 % fewer than without Contextopt" in tile_of(html, "agents")
    html = html_of(owner_client, "/?kind=phase")
    assert "20 % fewer than the full context" in tile_of(html, "agents")
    assert "of this kind" in tile_of(html, "assemblies")
    assert 'id="tile-saved"' not in html
    assert "stage 3" not in html.lower()


def test_an_empty_team_is_told_what_to_do(owner_client: Client, team: Team) -> None:
    html = html_of(owner_client, "/")
    assert "manage.py import_git demo ." in html
    assert "/api/v1/assemblies" in html
    assert "Load demo data" in html


def test_an_open_page_without_assemblies_loads_again(owner_client: Client, team: Team) -> None:
    response = owner_client.get("/", headers={**HTMX, "HX-Target": "figures"})
    assert (response.content, response.headers["HX-Refresh"]) == (b"", "true")


def test_an_empty_period_says_so(owner_client: Client, logged: Space) -> None:
    html = html_of(owner_client, "/?range=custom&first=2020-01-01&last=2020-01-05")
    assert "No assemblies in this period" in html


def test_the_island_has_every_chart(owner_client: Client, logged: Space) -> None:
    assert set(figures_of(html_of(owner_client, "/"))) == set(CHARTS)


def test_partials_are_parts_of_the_page(partial, logged: Space) -> None:
    whole = partial("/?range=7d", "overview")
    assert 'id="id_space"' in whole
    figures = partial("/?range=7d", "figures")
    assert 'id="id_space"' not in figures
    assert "tile-ratio" in figures


def test_caches_tell_page_and_partial_apart(owner_client: Client, logged: Space) -> None:
    assert "HX-Request" in owner_client.get("/").headers["Vary"]


def test_filters_go_into_the_address(owner_client: Client, logged: Space) -> None:
    headers = {**HTMX, "HX-Target": "overview"}
    response = owner_client.get("/?range=7d&first=&last=&space=support&stage=", headers=headers)
    assert response.headers["HX-Push-Url"] == "/?range=7d&space=support"


@pytest.mark.parametrize("query", ["polls=x", "polls=99999999999", "stage=&space="])
def test_what_is_no_filter_shows_the_default(query: str, owner_client: Client, logged: Space) -> None:
    assert "tile-ratio" in html_of(owner_client, f"/?{query}")


REVERSED = "range=custom&first=2026-02-01&last=2026-01-01"


@pytest.mark.parametrize(
    ("query", "label"),
    [
        ("range=1y", "Range"), ("range=%00", "Range"), ("stage=9", "Stage"), ("space=nowhere", "Space"),
        ("kind=x", "Kind"), ("config=x", "Config"), ("range=custom", "From"),
        ("range=custom&first=x&last=y", "From"), (REVERSED, "To"),
        ("range=custom&first=0001-01-01&last=9999-12-31", "To"),
    ],
)  # fmt: skip
def test_filters_that_make_no_sense_are_named_and_select_nothing(
    query: str, label: str, owner_client: Client, logged: Space
) -> None:
    html = html_of(owner_client, f"/?{query}")
    assert f'<p class="problem" role="alert">{label}: ' in html
    for absent in ("tile-ratio", "chart-data", "every 30s"):
        assert absent not in html
    figures = owner_client.get(f"/?{query}", headers={**HTMX, "HX-Target": "figures"}).content.decode()
    assert f"{label}: " in figures


@pytest.mark.parametrize(("query", "is_open"), [("stage=9", False), ("space=zz", False), (REVERSED, True)])
def test_the_dates_open_for_what_is_wrong_with_them_alone(
    query: str, is_open: bool, owner_client: Client, logged: Space
) -> None:
    assert ('<details class="popover" open>' in html_of(owner_client, f"/?{query}")) is is_open


def test_a_custom_range_is_written_in_one_form(owner_client: Client, logged: Space) -> None:
    html = squeezed(html_of(owner_client, "/?range=custom&first=2026-05-15&last=2026-06-14"))
    assert '<summary class="chip on">15 May 2026 – 14 Jun 2026</summary>' in html


def test_a_custom_range_out_of_bounds_names_its_limit(owner_client: Client, logged: Space) -> None:
    html = html_of(owner_client, "/?range=custom&first=2020-01-01&last=2026-01-01")
    assert "at most 400 days" in html


def test_a_space_narrows_the_figures(owner_client: Client, logged: Space) -> None:
    factories.make_space(logged.team, "quiet", name="Quiet")
    assert "No assemblies in this period" in html_of(owner_client, "/?space=quiet")


def test_polls_end_after_an_hour(owner_client: Client, logged: Space) -> None:
    headers = {**HTMX, "HX-Target": "figures"}
    first = owner_client.get("/?polls=1", headers=headers)
    assert first.status_code == 200
    assert "every 30s" in first.content.decode()
    last = owner_client.get(f"/?polls={MAX_POLLS}", headers=headers)
    assert last.status_code == 286
    assert "every 30s" not in last.content.decode()


def test_a_point_leads_to_its_assemblies(owner_client: Client, logged: Space) -> None:
    figures = figures_of(html_of(owner_client, "/?space=support"))
    link = figures["saved"]["data"][0]["customdata"][-1]
    html = html_of(owner_client, link)
    assert html.count('<th scope="row"><a') == 1


def test_csv_has_the_charts_numbers(owner_client: Client, logged: Space) -> None:
    response = owner_client.get(reverse("dashboard:overview_csv", args=["time"]))
    rows = list(csv.reader(b"".join(response.streaming_content).decode().splitlines()))
    assert rows[0] == ["start", "end", "assemblies", "p50 ms", "p95 ms", "p99 ms"]
    assert len(rows) == 15
    assert rows[-1][2] == "1"
    assert [float(cell) for cell in rows[-1][3:]] == pytest.approx([5.0, 5.0, 5.0], rel=0.12)


def test_a_list_of_several_traces_is_sent_once(owner_client: Client, logged: Space) -> None:
    make_phase_row(logged.team, NOW - timedelta(minutes=1))
    html = html_of(owner_client, "/")
    island = html.split('<script id="chart-data" type="application/json">')[1].split("</script>")[0]
    # With and without the unfinished day.
    assert island.count("start=2026-06-10T00:00:00Z") == 2
    assert island.count('"2026-06-10T00:00:00"') == 2


def test_viewers_are_offered_no_demo(teammate_client: Client, team: Team) -> None:
    assert "Load demo data" not in html_of(teammate_client, "/")


def test_the_same_queries_for_two_assemblies_as_for_twenty(
    owner_client: Client, space: Space, django_assert_num_queries
) -> None:
    for assemblies in (2, 38, 40):
        for minutes in range(assemblies):
            log_row(space, NOW - timedelta(minutes=minutes + 1))
        with django_assert_num_queries(19 if assemblies == 2 else 20):
            # the frame's four, spaces, prices, figures of the period, of the period before,
            # votes, changes of settings, new models, verdicts and tasks of both periods,
            # question sets, savings by space, prices and figures of the month, facts about spaces, is
            # folding behind, saved views, choices; below 20 assemblies their rows in place of the month
            html_of(owner_client, "/")


def test_demo_data_is_marked_and_can_be_removed(team: Team, owner_client: Client) -> None:
    space = factories.make_space(team)
    Space.objects.filter(pk=space.pk).update(is_demo=True)
    log_row(space, NOW - timedelta(minutes=1), is_demo=True)
    html = html_of(owner_client, "/")
    assert "Demo data" in html
    asked = html.split('<dialog id="demo-dialog"')[1].split("</dialog>")[0]
    assert space.name in asked
    assert "conversations, votes and verdicts" in asked
    # Only the dialog sends it.
    assert html.count(reverse("dashboard:demo_remove")) == asked.count(reverse("dashboard:demo_remove")) == 1
    owner_client.post(reverse("dashboard:demo_remove"))
    assert not Space.objects.filter(pk=space.pk).exists()


def test_times_are_the_teams(team: Team, owner_client: Client, logged: Space) -> None:
    Team.objects.filter(pk=team.pk).update(time_zone="Asia/Kolkata")
    assert "15 Jun 2026, 17:30, Asia/Kolkata" in html_of(owner_client, "/")


def test_worth_a_look_shows_the_rows_and_offers_causes(owner_client: Client, space: Space) -> None:
    for days in range(14):
        log_row(space, NOW - timedelta(days=days, minutes=1))
    log_row(space, NOW - timedelta(days=1), truncated=False)
    assert "Worth a look" not in html_of(owner_client, "/")
    for minutes in range(10):
        log_row(space, NOW - timedelta(days=1, minutes=minutes))
    html = html_of(owner_client, "/")
    assert "look-half-empty" in html
    assert "look-slow" not in html
    seen = html.split('id="look-truncated"')[1].split("</li>")[0]
    assert "Possible causes: " in seen
    rows = html_of(owner_client, unescape(seen.split('href="')[1].split('"')[0]))
    recent = Assembly.objects.filter(truncated=True, created_at__gt=NOW - timedelta(days=13, hours=12))
    shown = set(map(int, re.findall(r'href="/assemblies/(\d+)/"', rows)))
    assert shown == set(recent.values_list("pk", flat=True))


@pytest.mark.parametrize(
    ("query", "assemblies"),
    [("", 3), ("kind=phase", 1), ("phase=building", 1), ("model=large", 2), ("config=1", 1), ("config=2", 0),
     ("stage=4", 2), ("space=support&model=large", 1), ("kind=phase&stage=4", 0)],
)  # fmt: skip
@pytest.mark.parametrize("is_folded", [False, True])
def test_every_filter_narrows_page_csv_and_list(
    query: str, assemblies: int, is_folded: bool, owner_client: Client, space: Space
) -> None:
    moment = NOW - timedelta(minutes=1)
    config = ContextConfig.objects.get(space=space)
    log_row(space, moment, config=config)
    log_row(space, moment, model="large")
    make_phase_row(space.team, moment)
    if is_folded:
        keep_rollups()
    url = f"/?range=7d&{query}"
    response = owner_client.get(f"/overview/saved.csv?range=7d&{query}")
    rows = list(csv.reader(b"".join(response.streaming_content).decode().splitlines()))
    assert sum(int(row[2]) for row in rows[1:]) == assemblies
    html = html_of(owner_client, url)
    if not assemblies:
        assert "No assemblies in this period" in html
        return
    dots = figures_of(html)
    link = (dots["ratio"]["data"][0]["customdata"] or dots["time"]["data"][0]["customdata"])[-1]
    assert html_of(owner_client, link).count('<th scope="row"><a') == assemblies


def make_phase_row(team: Team, moment: datetime) -> None:
    Assembly.objects.create(
        team=team, kind="phase", phase="building", model="large", created_at=moment, as_of=moment,
        tokens_before=1_000, tokens_after=400, tokens_available=1_000, assembly_ms=2.0, encoding="x",
        tokenizer_version="1", sha256="",
    )  # fmt: skip


def test_kinds_apart_are_lines_and_lead_to_their_kind(owner_client: Client, logged: Space) -> None:
    make_phase_row(logged.team, NOW - timedelta(minutes=1))
    figures = figures_of(html_of(owner_client, "/?kinds=apart"))
    assert [trace["name"] for trace in figures["time"]["data"]] == ["phase", "space"]
    assert "kind=phase" in figures["time"]["data"][0]["customdata"][-1]


def test_filters_offer_what_was_seen_and_what_is_chosen(owner_client: Client, logged: Space) -> None:
    make_phase_row(logged.team, NOW - timedelta(minutes=1))
    keep_rollups()
    html = html_of(owner_client, "/?model=unheard-of")
    for option in ('value="building"', 'value="large"', 'value="unheard-of" selected', ">v1</option>"):
        assert option in html


@pytest.mark.parametrize(("range_name", "queries"), [("24h", 2), ("14d", 2), ("30d", 0), ("90d", 0)])
def test_the_month_goes_on_as_its_last_week(
    range_name: str, queries: int, logged: Space, django_assert_num_queries
) -> None:
    wanted = ask(logged.team, range_name)
    series = read_series(wanted)
    with django_assert_num_queries(queries):
        # The days of a page that shows the whole month suffice.
        month = project_month(series, wanted, NOW)
    # 100 tokens a day from the 1st to the 15th at noon, then 15.5 more days.
    assert month.so_far == 1_500
    assert month.projected == 1_500 + 1_550


@pytest.mark.parametrize("range_name", ["24h", "14d", "30d"])
def test_what_happens_once_a_week_is_not_projected_to_every_day(range_name: str, space: Space) -> None:
    for days in (1, 8):
        log_row(space, NOW - timedelta(days=days))
    wanted = ask(space.team, range_name)
    # 100 tokens in the last 7 days, then 15.5 more days.
    assert project_month(read_series(wanted), wanted, NOW).projected == 200 + round(100 / 7 * 15.5)


def test_a_month_without_a_full_day_is_not_projected(space: Space) -> None:
    log_row(space, NOW - timedelta(minutes=1))
    wanted = ask(space.team)
    month = project_month(read_series(wanted), wanted, NOW)
    assert month.projected == month.so_far == 100


def test_the_last_hours_say_when_they_began(owner_client: Client, logged: Space) -> None:
    settle(logged)
    assert "14 Jun 2026, 13:00 – 15 Jun 2026, 12:00, " in html_of(owner_client, "/?range=24h")
    assert "9 Jun 2026 – 15 Jun 2026, 12:00, " in html_of(owner_client, "/?range=7d")


def test_votes_are_shown_once_there_are_any(owner_client: Client, space: Space) -> None:
    html_of(owner_client, "/")
    assert "Upvote" not in html_of(owner_client, "/")
    assert owner_client.get("/overview/votes.csv").status_code == 404
    for rating in ("up", "down"):
        assembly = factories.make_assembly(space, created_at=NOW - timedelta(hours=1))
        give_feedback(
            team=space.team,
            subject=SubjectIn(assembly_id=assembly.id),
            opinion=OpinionIn(rating=rating),
            rater="user:olga",
        )
    Vote.objects.update(created_at=NOW - timedelta(minutes=30))
    settle(space)
    html = html_of(owner_client, "/")
    assert 'id="tile-liked"' in html
    assert "of 2 votes" in html
    assert '50 % <span class="faint">of 2</span>' in squeezed(html)
    assert "votes" in figures_of(html)
    assert owner_client.get("/overview/votes.csv").status_code == 200
    assert "Stage 4" in html_of(owner_client, "/overview/votes/")


def test_a_worker_that_is_behind_is_said(
    owner_client: Client, logged: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Is the worker running" not in html_of(owner_client, "/")
    UnfoldedAssembly.objects.bulk_create(UnfoldedAssembly(assembly_id=10**9 + n) for n in range(2_001))
    assert "Is the worker running" in html_of(owner_client, "/")


def test_no_name_breaks_out_of_the_island() -> None:
    name = "</script><!-- & \u2028"
    island = chart_island({"saved": {"data": [{"name": name}]}})
    assert island.count("<") == 2
    figures = json.loads(island.split(">", 1)[1].removesuffix("</script>"))["figures"]
    assert figures["saved"]["data"][0]["name"] == name


def test_without_javascript_each_chart_says_where_its_numbers_are(
    owner_client: Client, logged: Space
) -> None:
    html = squeezed(html_of(owner_client, "/"))
    assert html.count('<noscript><p class="muted">This chart needs JavaScript') == len(CHARTS)


def test_a_stages_median_is_marked_as_near(owner_client: Client, logged: Space) -> None:
    stages = html_of(owner_client, "/").split('aria-label="Stages"')[1].split("</table>")[0]
    assert "≈ marks an estimate to within 19 %" in stages
    assert '<td class="n">400</td>' in stages
    for number in range(20):
        log_row(logged, NOW - timedelta(days=1), tokens_after=390 + number)
    stages = html_of(owner_client, "/").split('aria-label="Stages"')[1].split("</table>")[0]
    median = re.search(r'<td class="n">≈ (\d+)</td>', stages)
    assert median and 390 <= int(median[1]) <= 409
