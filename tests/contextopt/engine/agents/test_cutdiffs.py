"""A cut diff shows the new code, near the names in the error."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.agents.cutdiffs import READ_LINES, DiffRoom, Sought, cut_patch
from contextopt.engine.agents.deltas import MIN_CHARS
from contextopt.engine.agents.linediff import Work, diff_lines, diff_text

HEADING = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
LINES = [f"value_{number} = {number}\n" for number in range(60)]

lines = st.lists(st.sampled_from(["a = 1", "b = other(2)", "", "return total", "x" * 90]), max_size=60)
rooms = st.builds(DiffRoom, st.integers(1, 24), st.integers(MIN_CHARS, 700))


def cut(old: str, new: str, room: DiffRoom, error: str = "") -> str:
    """Return the diff that is shown of a file."""
    return cut_patch(diff_lines(old, new, Work()), room, Sought.of(error))[0]


def signs(diff: str) -> list[str]:
    return [line[:1] for line in diff.split("\n") if line[:1] in ("-", "+")]


@given(lines, lines, rooms)
def test_new_code_is_shown_within_the_limits(old: list[str], new: list[str], room: DiffRoom) -> None:
    before, after = ("".join(f"{line}\n" for line in text) for text in (old, new))
    whole, shown = diff_text(before, after), cut(before, after, room)
    if shown == whole or before == after:
        return
    assert len(signs(shown)) <= (room.lines or 0)
    assert len(shown) <= (room.characters or 0)
    assert ("+" in signs(whole)) == ("+" in signs(shown))


def numbered(diff: str) -> Iterator[tuple[str, int, str]]:
    """Yield each line's sign, its number by the headings, and its text."""
    old = new = 0
    for line in diff.split("\n")[:-1]:
        if match := HEADING.fullmatch(line):
            old, new = int(match[1]) + (match[2] == "0"), int(match[3]) + (match[4] == "0")
            continue
        if line[:1] in ("-", " "):
            yield "-", old, line[1:]
        if line[:1] in ("+", " "):
            yield "+", new, line[1:]
        old, new = old + (line[:1] in ("-", " ")), new + (line[:1] in ("+", " "))


@given(
    st.lists(st.integers(0, 400), max_size=60), st.lists(st.integers(0, 400), max_size=60), st.integers(1, 30)
)
def test_headings_number_the_lines_that_are_shown(old: list[int], new: list[int], most: int) -> None:
    before, after = [f"line {number}" for number in old], [f"line {number}" for number in new]
    shown = cut("\n".join([*before, ""]), "\n".join([*after, ""]), DiffRoom(most, None))
    for sign, number, text in numbered(shown):
        assert (before if sign == "-" else after)[number - 1] == text


def test_a_rewritten_function_shows_as_much_new_code_as_old() -> None:
    old = "def total():\n" + "".join(f"    old_step_{number}()\n" for number in range(24))
    new = "def total():\n" + "".join(f"    new_step_{number}()\n" for number in range(24))
    shown = cut(old, new, DiffRoom(20, None))
    assert (signs(shown).count("-"), signs(shown).count("+")) == (10, 10)
    assert shown.startswith("@@ -2,10 +2,10 @@\n")
    assert shown.endswith("[… 28 more changed lines left out]")


def test_what_the_removed_lines_leave_goes_to_the_added_ones() -> None:
    new = "".join(LINES[:20]) + "".join(f"new_{number} = 0\n" for number in range(30)) + "".join(LINES[21:])
    shown = cut("".join(LINES), new, DiffRoom(20, None))
    assert (signs(shown).count("-"), signs(shown).count("+")) == (1, 19)


def test_hunks_that_the_error_names_come_first() -> None:
    new = "".join(line.replace("=", "==") if number % 6 == 0 else line for number, line in enumerate(LINES))
    limits = DiffRoom(4, None)
    assert "+value_0 == 0" in cut("".join(LINES), new, limits)
    shown = cut("".join(LINES), new, limits, "NameError: name 'value_48' is not defined")
    assert "+value_48 == 48" in shown
    assert "+value_0 == 0" in shown


def test_a_long_block_shows_the_lines_that_the_error_names() -> None:
    added = [f"setting_{number} = load({number})\n" for number in range(80)]
    shown = cut(
        "first\nlast\n", "first\n" + "".join(added) + "last\n", DiffRoom(20, 500), "KeyError: setting_61"
    )
    assert "+setting_61 = load(61)" in shown
    assert len(shown) <= 500


@pytest.mark.parametrize("kept", [0, 12])
def test_new_code_below_very_many_removed_lines_is_shown(kept: int) -> None:
    gone, between = ["gone\n"] * READ_LINES, LINES[:kept]
    old, new = [*gone, "last\n", *between, "a\n"], [*between, "b\n", "c\n"]
    shown = cut("".join(old), "".join(new), DiffRoom(20, 700))
    assert (signs(shown).count("-"), signs(shown).count("+")) == (18, 2)
    added = [(number, text) for sign, number, text in numbered(shown) if sign == "+"]
    assert added == [(kept + 1, "b"), (kept + 2, "c")]


def test_without_limits_a_long_diff_is_whole() -> None:
    old, new = "gone\n" * READ_LINES, "new\n"
    assert cut(old, new, DiffRoom(None, None)) == diff_text(old, new)


def test_of_a_pure_removal_the_removed_lines_are_shown() -> None:
    shown = cut("".join(LINES), LINES[0], DiffRoom(5, None))
    assert signs(shown) == ["-"] * 5
