from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.assemblies.tokenfactors import TokenFactor
from contextopt.gateway.models import GatewayGap, GatewayRequest
from contextopt.spaces.models import Space
from dashboard.pages.traffic.charts import TRAFFIC_CHARTS
from tests import factories
from tests.dashboard.conftest import figures_of, html_of

URL, PROMPTS = "/traffic/", "/traffic/prompts/"


def make(space: Space, **values: Any) -> GatewayRequest:
    return factories.make_gateway_request(
        space, **{"created_at": timezone.now() - timedelta(hours=1), **values}
    )


def rows(html: str) -> int:
    """Return how many prompts the list shows."""
    return html.split('id="prompts"')[1].split("</section>")[0].count('<th scope="row"')


def tile(html: str, slug: str) -> str:
    return html.split(f'id="tile-{slug}"')[1].split("</article>")[0]


@pytest.fixture(autouse=True)
def _gateway(settings: Any) -> None:
    settings.GATEWAY_HOST, settings.GATEWAY_PORT = "127.0.0.1", 8010
    settings.LLM_BASE_URL = settings.ANTHROPIC_BASE_URL = "http://127.0.0.1:9"


def test_an_empty_page_tells_how_to_begin(owner_client, space):
    html = html_of(owner_client, URL)
    assert "No prompts have passed yet" in html
    assert '<pre id="openai-url">http://127.0.0.1:8010/v1</pre>' in html
    assert '<pre id="anthropic-url">http://127.0.0.1:8010</pre>' in html
    assert html.count("data-copy") >= 4
    assert 'X-Contextopt-Space: <span data-fill="space">support' in html


def test_a_gateway_for_all_addresses_has_the_pages_host(owner_client, space, settings):
    settings.GATEWAY_HOST, settings.GATEWAY_PORT = "0.0.0.0", 9000
    assert "http://testserver:9000/v1" in html_of(owner_client, URL)
    settings.GATEWAY_HOST = "::1"
    assert "http://[::1]:9000/v1" in html_of(owner_client, URL)


def test_a_protocol_without_a_provider_is_not_offered(owner_client, space, settings):
    settings.ANTHROPIC_BASE_URL = ""
    html = html_of(owner_client, URL)
    assert 'id="openai-url"' in html
    assert 'id="anthropic-url"' not in html
    assert "set <code>ANTHROPIC_BASE_URL</code> and restart" in html
    settings.LLM_BASE_URL = ""
    html = html_of(owner_client, URL)
    assert 'id="openai-url"' not in html
    assert "No provider is configured yet." in html


def test_a_gateway_that_is_off_says_so(owner_client, space, settings):
    settings.GATEWAY_PORT = None
    assert "The gateway is off" in html_of(owner_client, URL)


def test_the_figures_are_the_prompts(owner_client, team, space):
    key, _ = factories.make_key(team, name="chatbot")
    make(space, api_key=key, input_tokens=1_000, cached_tokens=250)
    make(space, api_key=key, input_tokens=500, output_tokens=7, mode="insert", is_inserted=True)
    make(space, model="other", outcome="broken", reason="timeout", input_tokens=None)
    html = html_of(owner_client, URL)
    assert ">3<" in tile(html, "prompts").replace(" ", "")
    assert "1 failed, 0 abandoned" in tile(html, "prompts")
    assert "25 <small>%" in tile(html, "cached")
    assert "reported for 1 of 3" in tile(html, "cached")
    assert "33 % of prompts" in tile(html, "without")
    for name in (
        "chatbot",
        "Support notes",
        "gpt-4o-mini",
        "other",
        "The context took longer than the space",
    ):
        assert name in html
    figures = figures_of(html)
    assert set(figures) == set(TRAFFIC_CHARTS)
    assert sum(sum(filter(None, trace["y"])) for trace in figures["prompts"]["data"]) == 3


def test_clients_that_left_are_no_failures(owner_client, space):
    make(space, model="other", outcome="abandoned", status_code=None)
    html = html_of(owner_client, URL)
    assert "0 failed, 1 abandoned" in tile(html, "prompts")
    assert "outcome=failed" not in html
    link = html.split("outcome=abandoned")[0].split('href="')[-1] + "outcome=abandoned"
    listed = html_of(owner_client, unescape(link))
    assert rows(listed) == 1
    assert '<span class="tag">abandoned</span>' in listed


def test_ticks_are_numbers_that_there_can_be(owner_client, space):
    make(space, added_ms=0.6, input_tokens=40)
    axes = {
        slug: figure["layout"]["yaxis"] for slug, figure in figures_of(html_of(owner_client, URL)).items()
    }
    assert axes["prompts"]["dtick"] == 1
    assert "dtick" not in axes["tokens"]
    # Plotly writes 0.6 as 600m in any format with an s.
    assert axes["added"]["tickformat"] == ",~g"


def test_the_period_that_is_not_over_is_marked(owner_client, space):
    make(space)
    figures = figures_of(html_of(owner_client, URL))
    bars, line = figures["prompts"]["data"], figures["added"]["data"][0]
    assert [each["marker"]["opacity"][-2:] for each in bars] == [[1.0, 0.5]] * 3
    assert line["marker"]["symbol"][-2:] == ["circle", "circle-open"]


def test_no_report_of_cached_tokens_is_not_0_percent(owner_client, space):
    make(space)
    html = html_of(owner_client, URL)
    assert "no provider reported it" in tile(html, "cached")
    assert "not reported" in html
    assert "0 %" not in tile(html, "cached")


def test_money_only_with_a_price(owner_client, space):
    make(space, model="nobody-knows-this-model")
    assert "no price is known" in tile(html_of(owner_client, URL), "cost")
    make(space, model="gpt-4o-mini", input_tokens=2_000_000)
    assert "$0.30" in tile(html_of(owner_client, URL), "cost")


def test_what_insertion_would_have_done(owner_client, space):
    factories.make_record(space)
    made = factories.make_assembly(space)
    assembly = Assembly.objects.get(pk=made.id)
    make(space, assembly=assembly, context_tokens=120)
    html = html_of(owner_client, URL)
    assert "1 prompt would have received a context, 120 tokens on average" in html
    assert "In total, contexts whose savings count have as many tokens as the last 10 records." in html


def test_prompts_that_could_not_be_logged_are_said(owner_client, team, space):
    make(space)
    GatewayGap.objects.create(team=team, requests=7)
    assert "7 prompts passed but could not be logged" in html_of(owner_client, URL)


def test_each_figure_opens_its_rows(owner_client, space):
    make(space, cached_tokens=3)
    make(space, outcome="unreachable", status_code=None, reason="empty", model="other")
    html = html_of(owner_client, URL)
    links = {part.split('"')[0].replace("&amp;", "&") for part in html.split('href="')[1:]}
    counted = {url: rows(owner_client.get(url).content.decode()) for url in links if PROMPTS in url}
    assert len(counted) > 8

    def by(text: str) -> set[int]:
        return {count for url, count in counted.items() if text in url}

    assert by("cached=reported") == {1}
    assert by("context=without") == {1}
    assert by("outcome=failed") == {1}
    assert by("reason=empty") == {1}
    assert by("model=other") == {1}
    plain = [count for url, count in counted.items() if url.count("=") == 2]
    assert 2 in plain


def test_filters_narrow_and_have_chips(owner_client, team, space):
    other = factories.make_space(team, "sales", name="Sales notes")
    make(space)
    make(other, model="other")
    html = html_of(owner_client, URL, space="sales")
    assert ">1<" in tile(html, "prompts").replace(" ", "")
    assert "Sales notes</strong>" in html
    assert "No prompts in this period" in html_of(owner_client, URL, model="missing")


def test_policies_are_those_of_the_first_spaces_or_of_the_chosen(owner_client, team, space):
    for number in range(50):
        factories.make_space(team, f"space-{number:02}", name=f"A {number:02}")
    html = html_of(owner_client, URL)
    assert "The first 50 spaces." in html
    assert "/traffic/spaces/support/" not in html
    html = html_of(owner_client, URL, space="support")
    assert "/traffic/spaces/support/" in html
    assert "/traffic/spaces/space-00/" not in html


def test_the_list_shows_each_prompt_and_leads_to_its_context(owner_client, space):
    factories.make_record(space)
    made = factories.make_assembly(space)
    assembly = Assembly.objects.get(pk=made.id)
    make(space, assembly=assembly, mode="insert", is_inserted=True, context_tokens=77)
    html = html_of(owner_client, PROMPTS)
    assert reverse("dashboard:assembly", args=[assembly.pk]) in html
    assert "inserted" in html
    assert "not reported" in html


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, 5),
        ({"context": "inserted"}, 1),
        ({"context": "without"}, 1),
        ({"outcome": "failed"}, 2),
        ({"outcome": "broken"}, 1),
        ({"outcome": "answered"}, 3),
        ({"outcome": "abandoned"}, 1),
        ({"cached": "reported"}, 1),
        ({"cached": "not"}, 4),
        ({"model": "-"}, 1),
        ({"reason": "empty"}, 1),
        ({"mode": "insert"}, 1),
        ({"space": "support", "mode": "audit"}, 4),
        ({"space": "-"}, 0),
        ({"start": "2030-01-01"}, 0),
        ({"end": "2020-01-01"}, 0),
        ({"reason": "nonsense"}, 0),
        ({"start": "not a day"}, 0),
    ],
)
def test_the_list_is_filtered(owner_client, space, query, expected):
    make(space, mode="insert", is_inserted=True)
    make(space, reason="empty", status_code=429)
    make(space, outcome="broken", cached_tokens=0)
    make(space, outcome="abandoned")
    make(space, model="")
    assert rows(html_of(owner_client, PROMPTS, **query)) == expected


def test_the_list_has_pages(owner_client, space, settings):
    for minute in range(53):
        make(space, created_at=timezone.now() - timedelta(minutes=minute * 20), reason="empty")
    first = html_of(owner_client, PROMPTS, reason="empty")
    assert first.count("data-row") == 0
    older = first.split("before=")[1].split('"')[0]
    second = html_of(owner_client, PROMPTS, reason="empty", before=older)
    assert (rows(first), rows(second)) == (50, 3)


def test_a_chart_has_a_csv(owner_client, space):
    make(space)
    body = b"".join(owner_client.get("/traffic/charts/prompts.csv").streaming_content).decode()
    assert body.splitlines()[0].lstrip("\ufeff") == "start,end,prompts,Inserted,Audited,Without context"
    assert owner_client.get("/traffic/charts/nothing.csv").status_code == 404


def test_another_team_sees_nothing(outsider_client, space):
    make(space)
    assert "No prompts have passed yet" in html_of(outsider_client, URL)
    assert "Support notes" not in html_of(outsider_client, PROMPTS)


def test_the_figures_alone(partial, space):
    make(space)
    html = partial(f"{URL}?polls=3", "figures")
    assert "polls=4" in html
    assert 'data-live="traffic"' in html


def test_polling_stops_after_an_hour(owner_client, space):
    headers = {"HX-Request": "true", "HX-Target": "figures"}
    response = owner_client.get(f"{URL}?polls=120", headers=headers)
    assert response.status_code == 286
    assert b"data-live" not in response.content


def test_keys_are_named_however_many_there_are(owner_client, team, space, monkeypatch):
    monkeypatch.setattr("dashboard.pages.traffic.filters.KEYS_OFFERED", 1)
    old, gone, other, _ = [factories.make_key(team, name=name)[0] for name in ("old", "a", "b", "new")]
    for key in (old, gone, other):
        make(space, api_key=key)
    gone.delete()
    other.delete()
    html = html_of(owner_client, URL)
    keys = html.split(">By key<")[1].split("</table>")[0]
    assert (keys.count(">old<"), keys.count(">A deleted key<")) == (1, 1)
    assert rows(html_of(owner_client, PROMPTS, key="-")) == 2
    chosen = html_of(owner_client, URL, key=str(old.pk))
    assert f'<option value="{old.pk}" selected' in chosen and ">By key<" in chosen


@pytest.mark.parametrize("url", [URL, PROMPTS])
def test_the_number_of_queries_does_not_grow(owner_client, team, space, url, django_assert_max_num_queries):
    for number in range(20):
        other = factories.make_space(team, f"space-{number}")
        key, _ = factories.make_key(team, name=f"key {number}")
        make(other, api_key=key, model=f"model {number}")
    # The frame takes 4. The page: spaces, keys, models, prices, groups twice, buckets, gaps, policies,
    # token factors.
    with django_assert_max_num_queries(14):
        owner_client.get(url)


@pytest.mark.parametrize(
    "query", ["range=custom&first=2026-02-30", "space=nope", "key=x", "mode=off", "polls=x"]
)
def test_bad_filters_are_said_and_ignored(owner_client, space, query):
    make(space)
    assert owner_client.get(f"{URL}?{query}").status_code == 200


def test_user_text_is_text(owner_client, team, space):
    make(space, model="<script>alert(1)</script>")
    for url in (URL, PROMPTS):
        assert "<script>alert(1)" not in html_of(owner_client, url)


def test_token_factors_are_shown_with_their_jumps(owner_client, team, other_team):
    assert "Token factors" not in html_of(owner_client, URL)
    learned = {"kind": "prose", "mean": 13_000, "limit": 14_100, "counted_tokens": 1, "reported_tokens": 1}
    for model, values in (
        ("claude-opus-4-7", {"prompts": 2_140}),
        ("gemini-3-pro", {"prompts": 50, "mean_before": 10_500}),
    ):
        TokenFactor.objects.create(team=team, model=model, **learned, **values)
    TokenFactor.objects.create(team=other_team, model="their-own", prompts=900, **learned)
    shown = html_of(owner_client, URL).split('id="factors-title"')[1].split("</section>")[0]
    assert "×1.30" in shown
    assert "×1.41" in shown
    assert "2,140" in shown
    assert shown.count("in use from 200 prompts on") == 1
    assert shown.count("jumped from ×1.05, learned anew") == 1
    assert "their-own" not in shown
