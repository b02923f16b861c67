import json
from pathlib import Path

import pytest

from benchmarks.agents.briefmaterial import EXTRACTORS, Window, statements_in, talk_windows
from benchmarks.agents.briefreadings import load_readings, render_readings
from benchmarks.agents.briefs import recall, surviving
from contextopt.engine.briefs.compressor import Compression, Kept


@pytest.mark.parametrize(
    "line",
    [
        "Bump black from 22.1 to 22.3",
        "Update README.md (#9541)",
        "PaymentGateway (payments/gateway.py:41); reusability: high — It does not support refunds.",
        "So let 's say me and Jane are talking at the same time",
    ],
)
def test_a_line_with_a_verb_is_a_statement(line: str) -> None:
    assert statements_in(f"changes:\n{line}") == line


@pytest.mark.parametrize(
    "line", ["changes:", "also: make_get() fix.py", "Refs #12, #13, #14, #15", "Silent .", "#12 1.4.2", "Use"]
)
def test_headings_and_lists_of_names_are_none(line: str) -> None:
    assert statements_in(line) == ""


def test_names_count_where_something_is_said_about_them() -> None:
    brief = "changes:\nFix app/cart.py\nalso: app/user.py"
    source = "Fix app/cart.py and app/user.py"
    assert recall(EXTRACTORS["strict"], source, brief) == 1.0
    assert recall(EXTRACTORS["strict"], source, statements_in(brief)) == 0.5


def test_a_kept_text_without_its_negation_is_counted() -> None:
    window = Window.of(["It never fails on Mondays. Fine."])
    name = window.findings[0].id

    def kept(text: str) -> list[bool]:
        compression = Compression("p", "", 0, (), 0, 0, (), (Kept(name, text),), ())
        return list(surviving(compression, window))

    assert kept("It never fails on Mondays.") == [True]
    assert kept("fails on Mondays.") == [False]


def test_turns_become_windows(tmp_path: Path) -> None:
    turns = [
        {"speaker": "A", "dia_id": f"T{place}", "text": "We keep the cache. " * 100} for place in range(14)
    ]
    talk = {"session_1_date_time": "09:00 AM on 01 January, 2024", "session_1": turns}
    path = tmp_path / "talk.json"
    path.write_text(json.dumps([{"sample_id": "talk", "conversation": talk, "qa": []}]))
    windows = list(talk_windows(path))
    assert [len(window.findings) for window in windows] == [6, 6]


def test_ten_briefs_are_in_the_results() -> None:
    readings = load_readings()
    assert len(readings) == 10
    assert all(reading.brief and reading.judgement for reading in readings)
    results = Path("benchmarks/RESULTS.md").read_text()
    assert render_readings() in results
