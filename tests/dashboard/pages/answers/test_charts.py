"""The charts of the feedback page."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from dashboard.kit.periods import Period
from dashboard.pages.answers.charts import VoteData, liked_figure
from dashboard.pages.answers.figures import VoteSeries
from memory.feedback.trends import VoteFigures

EDGES = tuple(datetime(2026, 6, 1, tzinfo=UTC) + timedelta(days=day) for day in range(4))
VOTES = (VoteFigures(1, 1), VoteFigures(3, 1), VoteFigures(1, 0))


@pytest.mark.parametrize("is_over", [True, False])
def test_the_share_of_an_incomplete_day_is_hollow(is_over: bool) -> None:
    until = EDGES[-1] if is_over else EDGES[-1] - timedelta(hours=3)
    series = VoteSeries(Period(EDGES, until, "day", ZoneInfo("UTC")), VoteFigures(5, 2), VOTES)
    _, solid, *tail = liked_figure(VoteData(series, series, str)).to_plotly_json()["data"]
    if is_over:
        assert (list(solid["y"]), tail) == ([0.5, 0.75, 1.0], [])
    else:
        assert (list(solid["y"]), list(tail[0]["y"])) == ([0.5, 0.75], [0.75, 1.0])
        assert tail[0]["marker"]["symbol"] == "circle-open"
        assert tail[0]["line"]["dash"] == "dot"
