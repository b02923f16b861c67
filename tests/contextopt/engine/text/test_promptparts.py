"""The parts of a prompt, told by their shapes."""

import sys
from collections.abc import Callable, Sequence
from random import Random
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contextopt.engine.text.linekinds import PartKind, is_asking, kind_of_line
from contextopt.engine.text.promptparts import BlockPattern, Span, is_wrapped, prose_of, split_prompt
from contextopt.engine.text.promptpassages import (
    CANDIDATES_MAX,
    COMPARED_MAX,
    Candidate,
    are_few,
    candidates,
    choose,
    most_likely,
    shortened,
)

QUESTION = "What is the timeout of the payment service now?"
PYTHON_TRACE = """\
Traceback (most recent call last):
  File "/srv/app/views.py", line 12, in get
    return self.load(request)
KeyError: 'payment'"""
JAVA_TRACE = """\
Exception in thread "main" java.lang.IllegalStateException: not ready
	at org.example.Service.run(Service.java:12)
	... 3 more"""
CODE = """\
def wait(seconds: int) -> None:
    # Sleep in small steps.
    for _ in range(seconds):
        time.sleep(1)"""
DIFF = """\
diff --git a/app.py b/app.py
@@ -1,3 +1,3 @@
 def wait():
-    The old text of the page
+    The new text of the page"""
JSON = '{\n  "id": 7,\n  "note": "leave it at the door"\n}'
CSV = "id,name,amount\n1,Ada,10.50\n2,Bo,11.00"
LOG = "2026-05-12 10:00:01 INFO Started the worker\n2026-05-12 10:00:02 FEIL Klarte ikke å lagre"
MAIL_HEAD = "From: Ada <ada@example.com>\nSent: Tuesday\nTo: Bo\nSubject: RE: delivery"
QUOTED = "> We looked at it again last week.\n> Should we ask somebody else?"


def kinds(text: str) -> list[PartKind]:
    return [part.kind for part in split_prompt(text)]


def prose(text: str, patterns: Sequence[BlockPattern] = ()) -> list[str]:
    parts = split_prompt(text, patterns)
    return [text[part.start : part.end] for part in parts if part.kind == PartKind.PROSE]


@pytest.mark.parametrize("gap", ["\n", "\n\n", "\r\n\r\n"])
@pytest.mark.parametrize(
    ("pasted", "kind"),
    [
        (PYTHON_TRACE, PartKind.LOG),
        (JAVA_TRACE, PartKind.LOG),
        (CODE, PartKind.CODE),
        (DIFF, PartKind.CODE),
        (JSON, PartKind.DATA),
        (CSV, PartKind.DATA),
        (LOG, PartKind.LOG),
        (MAIL_HEAD, PartKind.DATA),
        (QUOTED, PartKind.QUOTE),
        ("```\nThe text inside of a fence\n```", PartKind.CODE),
        ("<system-reminder>\nNever mention this.\n</system-reminder>", PartKind.WRAPPED),
        ('<anything_new id="1">The workspace has open tabs.</anything_new>', PartKind.WRAPPED),
        ("[retrieved_notes]\nThey like it short.\n[/retrieved_notes]", PartKind.WRAPPED),
        ("-----BEGIN CONTEXT-----\nThe cursor is there.\n-----END CONTEXT-----", PartKind.WRAPPED),
    ],
)
def test_only_the_question_is_prose(pasted: str, kind: PartKind, gap: str) -> None:
    pasted = pasted.replace("\n", gap[:-1] + "\n" if "\r" in gap and len(gap) == 2 else "\n")
    for text in (
        f"{QUESTION}{gap}{pasted}",
        f"{pasted}{gap}{QUESTION}",
        f"{pasted}{gap}{QUESTION}{gap}{pasted}",
    ):
        assert [line.strip() for line in prose(text)] == [QUESTION]
        assert kind in kinds(text)


@pytest.mark.parametrize(
    "line",
    [
        "What did Ada say about the 12.5 % raise on 7 May 2026 at 10:30?",
        "Why does `load_all()` in app/views.py fail?",
        "- Then we moved the whole team to the other office.",
        "Hvorfor ble fakturaen ikke sendt til kunden?",
        "Er det noen som vet hvor nøkkelen ligger",
        "支払いサービスの期限は何ですか",
        "I wrote this.  It has two spaces.  After each sentence.",
        "Why?",
    ],
)
def test_prose(line: str) -> None:
    assert kind_of_line(line) == PartKind.PROSE


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "return result",
        "where total = x + 1",
        "SELECT id FROM users WHERE active",
        "web-1   1/1   Running   0   4d",
        "Name\tDepartment\tStarted",
        "error[E0502]: cannot borrow it as mutable",
        "ada@web:~$ make all",
        "10.0.0.1 - - [12/May/2026:10:00:00 +0000] GET",
    ],
)
def test_pasted_lines(line: str) -> None:
    assert kind_of_line(line) not in {PartKind.PROSE, None}


def test_a_blank_line_is_nothing() -> None:
    assert kind_of_line(" \t") is None


@pytest.mark.parametrize("name", ["task", "user_query", "user-message", "prompt"])
def test_a_block_of_the_persons_words_is_read(name: str) -> None:
    text = (
        f"<{name}>\n{QUESTION}\n</{name}>\n<environment_details>\nThe tabs are open.\n</environment_details>"
    )
    assert prose(text) == [QUESTION]


def test_a_block_is_read_if_nothing_is_outside_of_it() -> None:
    assert prose(f"<assignment>\n{QUESTION}\n</assignment>") == [QUESTION]


def test_a_tag_inside_a_line_is_the_persons() -> None:
    text = "Why does the page show <b>nothing</b> after the last update?\n\nIt is empty."
    assert prose(text)[0].startswith("Why does the page")


def test_a_fence_that_was_cut_hides_nothing() -> None:
    assert QUESTION in prose(f"```python\nx = 1\n\n{QUESTION}")
    assert QUESTION in prose(f"x = 1\n```\n\n{QUESTION}\n\n```python\nx = 1\n```")


def test_a_team_adds_its_patterns() -> None:
    text = f"EDITOR NOTE the cursor is in a file END\nEditor says that two tabs are open\n{QUESTION}"
    assert prose(text, BlockPattern.parse_all("EDITOR NOTE … END\n\nEditor says")) == [QUESTION]
    assert prose(text) != [QUESTION]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<system-reminder>\nUse the list.\n</system-reminder>", True),
        ("<a>\nx\n</a>\n\n<b>\ny\n</b>", True),
        (f"<a>\nx\n</a>\n{QUESTION}", False),
        (f"<user_query>\n{QUESTION}\n</user_query>", False),
        (QUESTION, False),
        ("<a> only opened", False),
        ("", False),
    ],
)
def test_wrapped_texts(text: str, expected: bool) -> None:
    assert is_wrapped(text) is expected


def test_a_teams_blocks_wrap_too() -> None:
    patterns = BlockPattern.parse_all("EDITOR … END\n[editor]")
    for text in ("EDITOR two tabs END", "[editor] two tabs\n<a>\nx\n</a>", "\nEDITOR a END\nEDITOR b END\n"):
        assert is_wrapped(text, patterns)
        assert not is_wrapped(f"{text}\nWhy?", patterns)
        assert not is_wrapped(text)


def test_the_prose_of_a_prompt() -> None:
    assert prose_of(f"{PYTHON_TRACE}\n\n{QUESTION}\n\n{CODE}") == QUESTION
    assert prose_of(CODE) == CODE


def test_requests_ask() -> None:
    for text in (QUESTION, "Summarize the discussion about prices.", "Kan du vise meg avtalen", "Ja?"):
        assert is_asking(text)
    for text in ("We moved.", "if x:", "What we did:", "where x = 1;"):
        assert not is_asking(text)


PIECES = st.sampled_from(
    [
        "<ab>", "</ab>", "<a", "[x]", "[/x]", "```", "~~~", "\n", "\n\n", " ", "\t", "?", ".", "word", "7",
        "-----BEGIN X-----\n", "-----END X-----\n", "> ", "Sub: x", QUESTION, CODE, "{", "}", "é", "日\r",
    ]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=400)


@given(TEXTS)
def test_parts_are_in_order_and_hold_every_word(text: str) -> None:
    parts = split_prompt(text)
    at = 0
    for part in parts:
        assert at <= part.start < part.end <= len(text)
        assert not text[at : part.start].strip()
        at = part.end
    assert not text[at:].strip()


@given(TEXTS)
def test_there_is_always_a_passage(text: str) -> None:
    found = candidates(text)
    assert 1 <= len(found) <= CANDIDATES_MAX
    assert all(0 <= each.span.start <= each.span.end <= len(text) for each in found)
    chosen = choose(found, [None] * len(found))
    assert 1 <= len(chosen) <= 3
    assert all(
        one.end <= other.start or other.end <= one.start for one in chosen for other in chosen if one != other
    )


def test_few_passages_are_compared() -> None:
    text = "\n\n".join([*(f"Did you see number {number}?" for number in range(40)), QUESTION])
    found = candidates(text)
    assert len(found) > COMPARED_MAX
    assert not are_few(found)
    known = [float(text[slice(*each.span)] == QUESTION) for each in found]
    likely = most_likely(found, known)
    assert len(likely) == COMPARED_MAX
    assert text[slice(*likely[0].span)] == QUESTION


def test_a_long_passage_gives_way_to_a_short_one() -> None:
    found = [Candidate(Span(0, 700), 0.4), Candidate(Span(700, 900), 0.3), Candidate(Span(900, 950), 0.2)]
    assert most_likely(found, [0.0] * 3) == [found[0], found[2]]
    assert most_likely(found[:1], [0.0]) == found[:1]
    assert most_likely([Candidate(Span(0, 5_000))], [0.0]) == [Candidate(Span(0, 5_000))]


@given(TEXTS, st.randoms(use_true_random=False))
def test_what_is_compared_is_bounded(text: str, rng: Random) -> None:
    found = candidates(text * 20)
    likely = most_likely(found, [rng.random() for _ in found])
    assert set(likely) <= set(found)
    assert len(likely) == 1 or are_few(likely)
    assert not are_few(found) or set(likely) == set(found)


@given(TEXTS, st.integers(20, 200))
def test_a_shortened_text_keeps_both_ends(text: str, most: int) -> None:
    short = shortened(text, most)
    assert len(short) <= most
    assert short.startswith(text[:5])
    assert short.endswith(text[-5:])


def count_calls(work: Callable[[], object]) -> int:
    """Return how many Python functions the work calls."""
    calls = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    "piece",
    [
        "<ab>", "<ab>\n", "<ab></ab>", "<ab>\n</ab>\n", "```\n", "? ", "What?\n", "-----BEGIN X-----\n",
        "[a] x\n", "a: b\n", f"{CODE}\n", f"{LOG}\n", "> x y z\n", "{\n", "   \n", "Error: x\n",
    ],
)  # fmt: skip
def test_the_work_grows_with_the_length(piece: str) -> None:
    once, twice = (
        count_calls(lambda text=f"{QUESTION}\n{piece * times}": candidates(text)) for times in (400, 800)
    )
    assert twice <= 2.1 * once + 100


def test_nested_tags_are_paired() -> None:
    text = f"{'<ab>' * 2_500}\n{'</ab>' * 2_500}\n{QUESTION}"
    assert prose(text) == [QUESTION]
