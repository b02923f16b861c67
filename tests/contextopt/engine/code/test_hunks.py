import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.code.graph.parsing import parse_file
from contextopt.engine.code.hunks import HunkWeights, TaskWords, Unit, cut_into_units

ALONE = HunkWeights(title=0, identifiers=0, rarity=0, heads=0, neighbours=0, edges=0)
BLANK = "def blank():\n    pass"


def rated(
    bodies: list[str], task: str, by: HunkWeights, rarity: dict[str, float] | None = None
) -> list[float]:
    """Rate units that each have one of the bodies, with a unit without words at both ends."""
    lines: list[str] = []
    units: list[Unit] = []
    for body in (BLANK, *bodies, BLANK):
        start = len(lines) + 1
        lines += body.split("\n")
        units.append(Unit(start, len(lines), body.partition("\n")[0], 0))
    return TaskWords.of(task, rarity or {}, by).rate(lines, units)[1:-1]


def test_without_words_all_are_zero() -> None:
    assert rated(["total = price", "total = count"], "", HunkWeights()) == [0.0, 0.0]
    assert TaskWords.of("price", {}, HunkWeights()).rate([""], []) == []


@pytest.mark.parametrize(
    ("task", "by", "rarity"),
    [
        ("order\n\nprice", HunkWeights(1, 0, 0, 0, 0, 0), {}),
        ("order price", HunkWeights(0, 0, 1, 0, 0, 0), {"order": 5.0, "pric": 1.0}),
    ],
)
def test_the_title_and_rare_words_decide(task: str, by: HunkWeights, rarity: dict[str, float]) -> None:
    about_order, about_price = rated(["x = order", "x = price"], task, by, rarity)
    assert about_order > about_price
    about_order, about_price = rated(["x = order", "x = price"], task, ALONE, rarity)
    assert about_order == about_price


def test_a_whole_identifier_beats_its_parts() -> None:
    bodies = ["x = price_of(y)", "x = price(of)"]
    whole, parts = rated(bodies, "priceOf fails", HunkWeights(0, 2, 0, 0, 0, 0))
    assert whole > parts
    assert len(set(rated(bodies, "priceOf fails", ALONE))) == 1


def test_a_head_counts_more_than_a_body() -> None:
    bodies = ["def refund(x):\n    return x", "def other(x):\n    return refund"]
    in_head, in_body = rated(bodies, "refund", HunkWeights(0, 0, 0, 1, 0, 0))
    assert in_head > in_body
    assert len(set(rated(bodies, "refund", ALONE))) == 1


def test_the_hunk_beside_a_good_one_comes_before_others() -> None:
    scores = rated(["x = refund", "y = 1", "z = 2"], "refund", HunkWeights(0, 0, 0, 0, 0.3, 0))
    assert scores[1] == pytest.approx(0.3 * scores[0])
    assert scores[2] == 0


def test_the_edges_of_a_file_are_places_to_add_things() -> None:
    lines = ["import os", "x = refund", "y = 1", "z = 2"]
    units = [Unit(number, number, "", 0) for number in range(1, 5)]
    scores = TaskWords.of("refund", {}, HunkWeights(0, 0, 0, 0, 0, 0.3)).rate(lines, units)
    assert scores == pytest.approx([0.3 * scores[1], scores[1], 0, 0.3 * scores[1]])


@given(st.text(alphabet="ab_A: \n\tdef()", max_size=200), st.text(alphabet="ab_A \n", max_size=20))
def test_units_cover_each_line_once(text: str, task: str) -> None:
    lines = text.split("\n")
    units = list(cut_into_units(lines, parse_file("a.py", text.encode())))
    covered = [line for unit in units for line in range(unit.start, unit.end + 1)]
    assert covered == sorted(set(covered))
    assert {number for number, line in enumerate(lines, 1) if line.strip()} <= set(covered)
    scores = TaskWords.of(task, {}, HunkWeights()).rate(lines, units)
    assert len(scores) == len(units)
    assert all(score >= 0 for score in scores)
