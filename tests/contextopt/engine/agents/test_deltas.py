import math
import os
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.agents.patches import apply_change, apply_diff
from contextopt.engine.agents.deltas import (
    DEFAULT_LIMITS,
    DELETED,
    LINE_ENDINGS,
    NEW_FILE,
    REVERTED,
    UNCUT,
    ChangedFile,
    DeltaLimits,
    FileDeltas,
    SentFile,
    build_delta,
    fully_sent,
    is_binary,
)
from contextopt.engine.agents.linediff import NO_CHANGES, diff_text, shorten_lines
from contextopt.engine.validation import InvalidValue
from tests.contextopt.engine.factories import TOKENIZER
from tests.contextopt.engine.strategies import clean_texts
from tests.speed import within

NASTY_LINES = (
    "a",
    "b",
    "",
    "a\r",
    "x\x0cy",
    "x\u2028y",
    "x\x85y",
    "l\rone",
    "\\ No newline at end of file",
    "@@ -1 +1 @@",
    "-a",
    "+b",
    " ",
)
hostile = st.builds(
    lambda lines, end: "\n".join(lines) + end,
    st.lists(st.one_of(st.sampled_from(NASTY_LINES), st.text(max_size=4)), max_size=14),
    st.sampled_from(["", "\n", "\r\n"]),
)
file_sets = st.dictionaries(st.sampled_from(["a.py", "b.py", "c.py", "d.py"]), hostile, max_size=4)
LINES = [f"value_{number} = {number}\n" for number in range(60)]
TEXT = "".join(LINES)


def delta(before: dict[str, str], after: dict[str, str], limits: DeltaLimits = DEFAULT_LIMITS) -> FileDeltas:
    return build_delta(fully_sent(before), after, TOKENIZER.count, limits)


def only(deltas: FileDeltas) -> ChangedFile:
    (changed,) = deltas.changed_files
    return changed


@given(old=hostile, new=hostile, context_lines=st.integers(0, 3))
def test_every_diff_applies_back(old: str, new: str, context_lines: int) -> None:
    assert apply_diff(old, diff_text(old, new, context_lines=context_lines)) == new


def test_equal_contents_have_no_changes() -> None:
    assert diff_text("a", "a") == NO_CHANGES == "[no changes detected]"
    assert delta({"a": TEXT}, {"a": TEXT}) == ((), fully_sent({"a": TEXT}))


def test_an_insertion_at_the_top_is_one_changed_line() -> None:
    assert diff_text(TEXT, "import os\n" + TEXT) == "@@ -1 +1,2 @@\n+import os\n value_0 = 0\n"


def test_one_line_of_context() -> None:
    new = TEXT.replace("value_30 = 30", "value_30 = 31")
    assert diff_text(TEXT, new) == (
        "@@ -30,3 +30,3 @@\n value_29 = 29\n-value_30 = 30\n+value_30 = 31\n value_31 = 31\n"
    )


def test_the_end_of_the_file_has_its_marker() -> None:
    assert diff_text("a\nb", "a\nb\n") == "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"


@pytest.mark.parametrize(
    "patch",
    [
        "nonsense",
        "@@ -1 +1 @@\n-z\n+b\n",
        "@@ -1,2 +1 @@\n-a\n",
        "@@ -9 +9 @@\n-a\n+b\n",
        "[… 3 more changed lines left out]",
    ],
)
def test_a_patch_that_does_not_fit_is_refused(patch: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        apply_diff("a\n", patch)
    assert caught.value.field == "patch"


def test_no_input_takes_long() -> None:
    size = 50_000
    binary = ["x\n" if (number * 7919) % 97 % 2 else "y\n" for number in range(size)]
    unique = [f"line {number}\n" for number in range(size)]
    for old, new in [
        (binary, binary[::-1]),
        (unique, unique[::-1]),
        (unique, sorted(unique)),
        (binary, unique),
    ]:
        # It takes about two seconds on a slow machine; a quadratic algorithm would take hours.
        with within(30):
            patch = diff_text("".join(old), "".join(new))
        assert apply_diff("".join(old), patch) == "".join(new)


def han_lines(first: int, count: int) -> list[str]:
    return [f"{chr(0x4E00 + number)}\n" for number in range(first, first + count)]


@pytest.mark.parametrize(
    ("old", "new"),
    [(han_lines(0, 1_000), han_lines(5_000, 1_000)), (han_lines(0, 1_000), han_lines(0, 1_000)[::-1])],
    ids=["nothing in common", "reversed"],
)
def test_many_files_take_no_longer_than_one(old: list[str], new: list[str]) -> None:
    paths = [f"{number}.py" for number in range(150)]
    # About a second with one work limit shared by all files; with a limit for each file it was 12.
    with within(5):
        outcome = delta(dict.fromkeys(paths, "".join(old)), dict.fromkeys(paths, "".join(new)), UNCUT)
    assert len(outcome.changed_files) == 150
    assert {apply_change(change, "".join(old)) for change in outcome.changed_files} == {"".join(new)}


def test_files_after_the_work_was_spent_are_replaced_as_a_block() -> None:
    hard = "".join(han_lines(0, 700)), "".join(han_lines(0, 700)[::-1])
    before, after = ({f"{n}.py": hard[side] for n in range(20)} for side in (0, 1))
    edited = TEXT.replace("= 10", "= x").replace("= 50", "= y")
    alone = only(delta({"z.py": TEXT}, {"z.py": edited}, UNCUT))
    outcome = delta(before | {"z.py": TEXT}, after | {"z.py": edited}, UNCUT)
    assert outcome == delta(before | {"z.py": TEXT}, after | {"z.py": edited}, UNCUT)
    last = outcome.changed_files[-1]
    assert len(alone.diff) < len(last.diff) < 3 * len(TEXT)
    assert apply_change(alone, TEXT) == apply_change(last, TEXT) == edited


def test_looking_for_renames_is_bounded() -> None:
    lines = [2 * chr(0x4E00 + number) + "\n" for number in range(20_000)]
    old = {f"old{n}.py": "".join(lines) + f"{n:03}\n" for n in range(30)}
    new = {f"new{n}.py": "".join(lines) + f"x{n:03}\n" for n in range(30)}
    # Comparing every line of every pair took six seconds.
    with within(3):
        outcome = delta(old, new)
    assert {change.kind for change in outcome.changed_files} == {"new", "deleted"}


def test_files_that_share_too_many_lines_are_not_renamed_but_the_others_are() -> None:
    common = [f"common {number}\n" for number in range(4_000)]
    old = {f"old{n}.py": "".join(common) + f"{n:03}\n" for n in range(20)} | {"y.py": TEXT}
    new = {f"new{n}.py": "".join(common) + f"x{n:03}\n" for n in range(20)} | {"z.py": TEXT + "more\n"}
    kinds = Counter(change.kind for change in delta(old, new).changed_files)
    assert kinds == {"renamed": 13, "new": 8, "deleted": 8}
    assert delta(old, new).receiver_files["z.py"].content == TEXT + "more\n"


def test_a_new_file_shows_its_first_500_characters() -> None:
    short = only(delta({}, {"a.py": "x = 1\n"}))
    assert (short.kind, short.diff, short.is_truncated) == ("new", f"{NEW_FILE}\nx = 1\n", False)
    outcome = delta({}, {"a.py": TEXT})
    long = only(outcome)
    assert long.diff.startswith(f"{NEW_FILE}\n{TEXT[:500]}")
    assert f"{len(TEXT) - 500:,} more characters" in long.diff
    assert long.is_truncated
    assert outcome.receiver_files["a.py"] == SentFile(None, is_partial=True)


def test_a_deleted_file() -> None:
    outcome = delta({"a.py": TEXT}, {})
    assert only(outcome) == ChangedFile("a.py", DELETED, "deleted")
    assert outcome.receiver_files == {}
    assert build_delta(fully_sent({"a.py": TEXT}), {"a.py": None}, TOKENIZER.count) == outcome


def test_a_renamed_file_is_shown_with_its_changes() -> None:
    moved = delta({"a.py": TEXT}, {"b.py": TEXT})
    assert only(moved) == ChangedFile("b.py", "[RENAMED from a.py]", "renamed", renamed_from="a.py")
    assert moved.receiver_files == fully_sent({"b.py": TEXT})
    edited = only(delta({"a.py": TEXT}, {"b.py": TEXT.replace("= 30", "= 31")}))
    assert edited.diff.startswith("[RENAMED from a.py]\n@@ -30,3 +30,3 @@\n")
    other = delta({"a.py": TEXT}, {"b.py": "def f():\n    return 1\n"})
    assert {changed.kind for changed in other.changed_files} == {"deleted", "new"}


def test_binary_files_are_mentioned_and_never_sent() -> None:
    outcome = build_delta(
        fully_sent({"a.png": b"\x89old"}), {"a.png": b"\x89PNG\0\1", "b": "x\0y"}, TOKENIZER.count
    )
    assert [changed.diff for changed in outcome.changed_files] == [
        "[BINARY FILE] 6 bytes",
        "[BINARY FILE] 3 bytes",
    ]
    again = build_delta(outcome.receiver_files, {"a.png": b"\x89PNG\0\1", "b": "x\0y"}, TOKENIZER.count)
    assert again.changed_files == ()
    text = build_delta(outcome.receiver_files, {"a.png": "now text", "b": "x\0y"}, TOKENIZER.count)
    assert only(text).kind == "new"


def test_the_whole_file_is_sent_if_the_diff_would_be_larger() -> None:
    outcome = delta({"a.py": "one\ntwo\nthree\n"}, {"a.py": "four\nfive\n"})
    assert only(outcome).diff == "[FULL FILE]\nfour\nfive\n"
    assert outcome.receiver_files == fully_sent({"a.py": "four\nfive\n"})


def test_limits_cut_at_a_line_and_say_what_is_missing() -> None:
    new = "".join(line.replace("=", "==") for line in LINES)
    cut = only(delta({"a.py": TEXT}, {"a.py": new}, DeltaLimits(diff_lines=20, diff_characters=None)))
    assert sum(line[:1] in "+-" for line in cut.diff.split("\n")) == 20
    assert cut.diff.endswith("\n[… 100 more changed lines left out]")
    short = only(delta({"a.py": TEXT}, {"a.py": new}))
    assert short.is_truncated
    assert len(short.diff) <= 500
    with pytest.raises(InvalidValue):
        apply_change(short, TEXT)


def test_a_cut_delta_does_not_move_the_base() -> None:
    new = "".join(line.replace("=", "==") for line in LINES)
    first = delta({"a.py": TEXT}, {"a.py": new})
    assert first.receiver_files == {"a.py": SentFile(TEXT, is_partial=True)}
    fixed = TEXT.replace("= 30", "= 31")
    second = build_delta(first.receiver_files, {"a.py": fixed}, TOKENIZER.count)
    assert apply_change(only(second), TEXT) == fixed
    back = build_delta(first.receiver_files, {"a.py": TEXT}, TOKENIZER.count)
    assert only(back).diff == REVERTED
    assert back.receiver_files == fully_sent({"a.py": TEXT})


def test_a_cut_rename_keeps_the_old_base() -> None:
    new = TEXT + "".join(f"extra_{number} = {number}\n" for number in range(30))
    first = delta({"a.py": TEXT}, {"b.py": new})
    assert first.receiver_files == {"a.py": SentFile(TEXT, is_partial=True)}
    second = build_delta(first.receiver_files, {"b.py": new}, TOKENIZER.count, UNCUT)
    assert only(second).renamed_from == "a.py"
    assert second.receiver_files == fully_sent({"b.py": new})


@given(versions=st.lists(file_sets, min_size=2, max_size=4), small=st.booleans())
@example(versions=[{"a.py": "a\r\nb\n\n"}, {"a.py": "a\nb\n\n"}, {"a.py": "a\nb\r\n\n"}], small=True)
def test_a_receiver_can_always_rebuild_what_it_was_sent(versions: list[dict[str, str]], small: bool) -> None:
    """Apply the deltas as a receiver does, and compare with the files that we believe it has."""
    limits = DeltaLimits(3, 100) if small else UNCUT
    believed: dict[str, SentFile] = {}
    has: dict[str, str] = {}
    for files in versions:
        outcome = build_delta(believed, files, TOKENIZER.count, limits)
        before = dict(has)
        for changed in outcome.changed_files:
            # A binary file was never sent, so the receiver cannot apply its new name to anything.
            if changed.is_truncated or changed.kind == "binary" or "\0" in files.get(changed.path, ""):
                continue
            content = apply_change(changed, before.get(changed.renamed_from or changed.path))
            has.pop(changed.renamed_from or changed.path, None)
            if content is not None:
                assert content == files[changed.path]
                has[changed.path] = content
        cut = {changed.path for changed in outcome.changed_files if changed.is_truncated}
        for path in cut:
            if path in believed and believed[path].content is not None:
                assert outcome.receiver_files[path].content == believed[path].content
        believed = outcome.receiver_files
        for path, content in has.items():
            if path in believed and isinstance(believed[path].content, str) and "\0" not in content:
                assert believed[path].content == content or path in cut or "\0" in str(believed[path].content)
        silent = set(files) - {changed.path for changed in outcome.changed_files}
        assert all(believed[path] == SentFile(files[path]) for path in silent)
    if not small:
        assert believed == fully_sent(versions[-1])


def test_the_order_of_hashing_changes_nothing() -> None:
    script = (
        "from contextopt.engine.agents.deltas import *\n"
        "from contextopt.engine.agents.errorlogs import latest_error\n"
        "old = {f'f{n}.py': ''.join(f'line {n} {k}\\n' for k in range(20)) for n in range(12)}\n"
        "new = {f'g{n}.py': old[f'f{n}.py'] + 'more\\n' for n in range(6)}\n"
        "new |= {f'f{n}.py': 'x' for n in range(6, 9)}\n"
        "print(build_delta(fully_sent(old), new, len))\n"
        "print(latest_error('\\n'.join(f'file{n}.py:3: error: bad {n}' for n in range(300))))\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(outputs) == 1


class TestLongLines:
    """A change within one long line shows what changed, within the limit."""

    LONG = "".join(f'"key_{number}": {number}, ' for number in range(400))

    def tell(self, old: str, new: str, limits: DeltaLimits = DEFAULT_LIMITS) -> ChangedFile:
        (change,) = build_delta(
            fully_sent({"a.json": old}), {"a.json": new}, TOKENIZER.count, limits
        ).changed_files
        assert len(change.diff) <= (limits.diff_characters or math.inf)
        return change

    def test_the_change_is_in_sight_on_both_sides(self) -> None:
        change = self.tell(f"[\n{self.LONG}\n]\n", f"[\n{self.LONG.replace(': 200,', ': 777,')}\n]\n")
        assert change.is_truncated
        header, before, removed, added, _, note = change.diff.split("\n")
        assert (header, before, note) == ("@@ -1,3 +1,3 @@", " [", "[… long lines are cut]")
        assert '"key_200": 200,' in removed
        assert '"key_200": 777,' in added
        for line in (removed[1:], added[1:]):
            assert line[0] == line[-1] == "…"
            assert line[1:-1] in self.LONG.replace(": 200,", ": 777,") + self.LONG

    @pytest.mark.parametrize("changed", ["x{}", "{}x"], ids=["start", "end"])
    def test_a_change_at_an_end_of_the_line(self, changed: str) -> None:
        change = self.tell(self.LONG, changed.format(self.LONG))
        (added,) = [line for line in change.diff.split("\n") if line.startswith("+")]
        assert added.strip("+… ").startswith("x") or added.endswith("x")

    def test_several_long_lines_stand_in_pairs(self) -> None:
        old = "".join(f"{number}{self.LONG}\n" for number in range(4))
        change = self.tell(old, old.replace(": 77,", ": 78,"))
        signs = [line[0] for line in change.diff.split("\n")[1:-1]]
        assert signs[:6] == ["-", "+"] * 3
        assert change.diff.count(": 78, ") >= 3

    def test_a_new_long_line_is_cut_at_its_end(self) -> None:
        change = self.tell("a\n" * 300, "a\n" * 300 + self.LONG + "\n")
        assert '+"key_0": 0, ' in change.diff

    def test_a_cut_line_does_not_move_the_base(self) -> None:
        deltas = build_delta(fully_sent({"a": self.LONG}), {"a": self.LONG + "!"}, TOKENIZER.count)
        assert deltas.receiver_files["a"] == SentFile(self.LONG, is_partial=True)

    @given(clean_texts, clean_texts, st.integers(100, 600), st.integers(0, 3))
    def test_the_limit_holds(self, one: str, other: str, chars: int, lines: int) -> None:
        old = "\n".join([self.LONG + one] * (lines + 1))
        new = "\n".join([one + self.LONG + other] * (lines + 1))
        if not is_binary(old + new) and old != new:
            self.tell(old, new, DeltaLimits(20, chars))

    def test_a_note_about_a_line_that_stayed_is_kept(self) -> None:
        lines = ["-" + "x" * 50 + "\n", " same\n", "\\ No newline at end of file\n"]
        shown = shorten_lines(lines, 24, 24)
        assert shown[1] == " same\n"
        assert shown[2].startswith("\\ No newline")

    def test_a_megabyte_in_one_line_is_fast(self) -> None:
        line = "x" * 1_000_000
        with within(1):
            self.tell(f"{line}a{line}", f"{line}b{line}")


@pytest.mark.parametrize(
    ("old", "new", "became"),
    [
        ("\r\n", "\n", "CRLF became LF"),
        ("\n", "\r\n", "LF became CRLF"),
        ("\r", "\n", "CR became LF"),
    ],
)
def test_a_change_of_line_endings_alone_is_one_line(old: str, new: str, became: str) -> None:
    text = "".join(f"set value_{number}{{end}}" for number in range(200))
    outcome = delta({"a.bat": text.replace("{end}", old)}, {"a.bat": text.replace("{end}", new)})
    (changed,) = outcome.changed_files
    assert changed.diff == f"{LINE_ENDINGS} {became} in 200 lines, with the same text"
    assert changed.render() == f"### a.bat\n{changed.diff}\n"
    assert (changed.kind, changed.is_truncated) == ("changed", False)
    assert outcome.receiver_files["a.bat"].content == text.replace("{end}", new)
    assert apply_change(changed, text.replace("{end}", old)) == text.replace("{end}", new)


def test_line_endings_of_some_lines_are_named_together() -> None:
    (changed,) = delta({"a": "one\r\ntwo\nthree\n"}, {"a": "one\ntwo\nthree\n"}).changed_files
    assert changed.diff == f"{LINE_ENDINGS} CRLF and LF became LF in 3 lines, with the same text"
    (changed,) = delta({"a": "one\ntwo\nthree\n"}, {"a": "one\r\ntwo\nthree\n"}).changed_files
    assert "[LINE" not in changed.diff


def test_another_change_is_shown_beside_line_endings() -> None:
    (changed,) = delta({"a": TEXT.replace("\n", "\r\n")}, {"a": TEXT.replace("= 7\n", "= 8\n")}).changed_files
    assert LINE_ENDINGS not in changed.diff


def test_whole_changes_can_be_applied_to_line_endings_too() -> None:
    old, new = TEXT.replace("\n", "\r\n"), TEXT
    (changed,) = delta({"a": old}, {"a": new}, UNCUT).changed_files
    assert apply_change(changed, old) == new
