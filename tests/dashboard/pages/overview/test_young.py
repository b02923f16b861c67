"""A period with fewer than 20 assemblies: exact values, its own time axis, and no targets or projections."""

from datetime import datetime, timedelta

import plotly.graph_objects as go
import pytest
from django.test import Client

from contextopt.spaces.models import Space
from dashboard.pages.overview.youngcharts import STEPS_SHOWN, span_of
from tests.dashboard.conftest import HTMX, figures_of, html_of, squeezed
from tests.dashboard.pages.overview.test_cards import answer_of, card_of
from tests.dashboard.pages.overview.test_charts import coloured
from tests.dashboard.pages.overview.test_figures import log_row
from tests.factories import NOW

pytestmark = pytest.mark.usefixtures("noon")


@pytest.fixture
def young(space: Space) -> Space:
    """Three contexts within ten minutes; the first took long."""
    for minutes, ms, truncated in ((12, 400.0, True), (8, 30.0, False), (3, 20.0, True)):
        log_row(space, NOW - timedelta(minutes=minutes), assembly_ms=ms, truncated=truncated, stage=5)
    return space


@pytest.mark.parametrize(
    ("first", "last", "start", "step", "steps"),
    [
        ("11:48", "11:48", "11:48", timedelta(minutes=1), 1),
        ("11:48", "11:57", "11:48", timedelta(minutes=2), 5),
        ("09:10", "11:57", "09:00", timedelta(minutes=30), 6),
        ("00:10", "23:50", "00:00", timedelta(hours=6), 4),
    ],
)
def test_the_axis_has_round_times_around_what_there_is(
    first: str, last: str, start: str, step: timedelta, steps: int
) -> None:
    ends = [datetime.fromisoformat(f"2026-06-15T{time}") for time in (first, last)]
    span = span_of(ends)
    assert (f"{span.start:%H:%M}", span.step, span.steps) == (start, step, steps)
    assert span.start <= ends[0] and ends[1] < span.end


def test_a_long_time_is_shown_in_days() -> None:
    span = span_of([NOW - timedelta(days=13), NOW])
    assert span.step >= timedelta(days=2)
    assert span.steps <= STEPS_SHOWN


def test_each_dot_is_an_assembly_and_leads_to_it(owner_client: Client, young: Space) -> None:
    figures = figures_of(html_of(owner_client, "/"))
    assert set(figures) == {"ratio", "time", "truncation"}
    for slug in ("ratio", "time"):
        [dots] = figures[slug]["data"]
        assert len(dots["x"]) == 3
        assert html_of(owner_client, dots["customdata"][0]).count('<th scope="row"><a') == 1
    cut, whole = figures["truncation"]["data"]
    assert (sum(cut["y"]), sum(whole["y"])) == (2, 1)
    for figure in figures.values():
        go.Figure(coloured(figure))
        # "~s" would write 0.5 as 500m.
        assert figure["layout"]["yaxis"]["tickformat"] != "~s"
        assert figure["layout"]["xaxis"]["range"][0].startswith("2026-06-15T11:4")


def test_values_are_exact(owner_client: Client, young: Space) -> None:
    html = html_of(owner_client, "/")
    assert "15 Jun 2026, 11:48 – 11:57, UTC · all there is in this period" in html
    assert "compared with" not in html
    assert "Nobody has judged yet. All 3 contexts held records." in answer_of(html, "enough")
    assert "2 of 3 space contexts were ready in 30.0 ms." in answer_of(html, "speed")
    slowest = squeezed(answer_of(html, "speed"))
    assert ">400 ms</a>: the first search of a process loads the model" in slowest
    heads = squeezed(html)
    for figure in ("4 of 10", "30.0 ms", "2 of 3"):
        assert f'<strong class="now">{figure}</strong>' in heads


def test_there_are_no_targets_savings_projections_or_alarms(owner_client: Client, young: Space) -> None:
    log_row(young, NOW - timedelta(minutes=1), records_filtered=0, records_included=0)
    html = html_of(owner_client, "/")
    assert "target 80–95 %" not in html
    assert "Projected this month" not in html
    assert 'id="tile-saved"' not in html
    assert "last 10 records" not in answer_of(html, "cost")
    assert "Worth a look" not in html
    assert "▲" not in html.split('id="figures"')[1].split("chart-data")[0]
    assert "alarm" not in card_of(html)


def test_the_only_context_is_named_so(owner_client: Client, space: Space) -> None:
    log_row(space, NOW - timedelta(minutes=1))
    html = html_of(owner_client, "/")
    assert "The context held records." in answer_of(html, "enough")
    assert "The only space context was ready in 5.0 ms." in answer_of(html, "speed")
    assert "15 Jun 2026, 11:59, UTC" in html


def test_tables_and_exports_are_those_of_the_period(owner_client: Client, young: Space) -> None:
    for slug in ("ratio", "time", "truncation"):
        table = owner_client.get(f"/overview/{slug}/", headers=HTMX).content.decode()
        assert table.count('<th scope="row">') == 14
        assert owner_client.get(f"/overview/{slug}.csv").status_code == 200
