import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from django.core.serializers.json import DjangoJSONEncoder

from dashboard.charts import CHARTS, ChartData
from dashboard.metrics import Figures, Series
from dashboard.periods import custom_period, recent_period

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
SOME = Figures(9, 0.3, 0.8, 0.5, 1_000, 4_000, 3_000, 12.0, 2.0, 5.0, 9.0)


def data_of(points: list[Figures], is_over: bool = False) -> ChartData:
    zone = ZoneInfo("Europe/Oslo")
    now = NOW if not is_over else datetime(2027, 1, 1, tzinfo=UTC)
    period = custom_period(NOW.date().replace(day=15 - len(points) + 1), NOW.date(), now, zone)
    series = Series(period, SOME, tuple(points))
    return ChartData(series, Series(period.before(), SOME, tuple(points)), lambda b: f"/a?{b.start:%d}")


@pytest.mark.parametrize("slug", CHARTS)
@pytest.mark.parametrize("points", [[SOME] * 5, [Figures()] * 5, [SOME, Figures(), SOME, Figures(), SOME]])
def test_a_figure_is_json_without_a_theme(slug: str, points: list[Figures]) -> None:
    figure = CHARTS[slug].build(data_of(points)).to_plotly_json()
    text = json.dumps(figure, cls=DjangoJSONEncoder, allow_nan=False)
    assert "#" not in text
    assert "heatmap" not in text


@pytest.mark.parametrize("slug", CHARTS)
def test_points_lead_to_their_assemblies(slug: str) -> None:
    figure = CHARTS[slug].build(data_of([SOME] * 5, is_over=True)).to_plotly_json()
    # 15 June starts at 22:00 UTC of the 14th in Oslo.
    assert any(trace["customdata"][-1] == "/a?14" for trace in figure["data"] if "customdata" in trace)


def test_a_bucket_that_is_not_over_is_a_dotted_line_with_a_hollow_end() -> None:
    solid, tail = CHARTS["truncation"].build(data_of([SOME] * 5)).to_plotly_json()["data"]
    assert len(solid["x"]) == 4
    assert tail["line"]["dash"] == "dot"
    assert tail["marker"]["symbol"] == "circle-open"
    assert tail["name"] == "so far"


def test_the_last_measured_point_has_the_name_of_its_line() -> None:
    data = data_of([SOME, SOME, SOME, Figures(), Figures()])
    figure = CHARTS["time"].build(data).to_plotly_json()
    texts = {trace["name"]: list(trace["text"]) for trace in figure["data"]}
    assert texts["p95"] == ["", "", " p95", ""]
    assert texts["p95 so far"] == ["", ""]


def test_an_area_is_not_drawn_over_gaps() -> None:
    whole, broken = (
        CHARTS["truncation"].build(data_of(points)).to_plotly_json()["data"][0]
        for points in ([SOME] * 5, [SOME, Figures(), SOME, SOME, SOME])
    )
    assert whole["fill"] == "tozeroy"
    assert "fill" not in broken


def test_buckets_are_shown_by_the_teams_clock() -> None:
    trace = CHARTS["saved"].build(data_of([SOME] * 5)).to_plotly_json()["data"][0]
    assert trace["x"][0] == datetime(2026, 6, 11)


def test_hours_have_a_clock_on_the_axis() -> None:
    period = recent_period("24h", NOW, ZoneInfo("UTC"))
    series = Series(period, SOME, (SOME,) * 24)
    figure = CHARTS["time"].build(ChartData(series, series, lambda b: "/")).to_plotly_json()
    assert figure["layout"]["xaxis"]["tickformat"] == "%H:%M"


@pytest.mark.parametrize("slug", CHARTS)
def test_columns_show_a_dash_where_nothing_was_measured(slug: str) -> None:
    for column in CHARTS[slug].columns:
        assert column.show(column.pick(Figures())) == "–"
