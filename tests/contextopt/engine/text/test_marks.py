"""Foreign text never passes as ours, whichever renderer it goes through, and comes back byte for byte."""

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.agents.patches import apply_change
from contextopt.engine.agents.contexts import AgentContext, ContextFile
from contextopt.engine.agents.deltas import UNCUT, ChangedFile, DeltaLimits, SentFile, build_delta, fully_sent
from contextopt.engine.agents.retries import Diagnosis, FailedAttempt, FullRetry, plan_retry, retry_task
from contextopt.engine.rendering import header, line_start, render, with_excerpt
from contextopt.engine.text.cleaning import flatten_to
from contextopt.engine.text.quoting import (
    MARK,
    NO_NEWLINE,
    STRATEGY_HINT,
    fence,
    mark,
    marked_block,
    marked_file,
    unmark,
)
from contextopt.engine.text.tokens import HeuristicCounter, RenderedCounter
from contextopt.engine.values import RecordSummary, SpaceContext
from tests.contextopt.engine.factories import NOW, TOKENIZER
from tests.contextopt.engine.payloads import BREAKS, PAYLOADS, hostile

EXACT = RenderedCounter(TOKENIZER)
_DIGEST = re.compile(r"\b[0-9a-f]{8}\b")
every_payload = pytest.mark.parametrize("text", PAYLOADS, ids=ascii)


def ours(text: str) -> list[str]:
    """Return the lines without a mark, for a reader who takes any separator as a line break."""
    lines = [line for line in text.splitlines() if line and not line.startswith(MARK)]
    return [_DIGEST.sub("digest", line) for line in lines if line != NO_NEWLINE.rstrip()]


def context_of(text: str) -> AgentContext:
    trusts = ("user", "agent", "external", "of nobody")
    items = (text, *({"content": text, "trust_level": trust, text: [text]} for trust in trusts))
    return AgentContext(
        tree=text,
        tree_paths=(text, "a.py"),
        package_manifest=text,
        files=(ContextFile("a.py", text), ContextFile("b.py", f"{text}\n"), ContextFile("c.py", "")),
        memories=items,
        docs=items,
        tools=items,
        task=text,
    )


def attempt_of(text: str, root_cause: str = "implementation_error") -> FailedAttempt:
    diagnosis = Diagnosis(root_cause, text[:900], text[:900])
    return FailedAttempt(text, text, text, diagnosis, 2, context_of(text))


def changes_of(text: str, limits: DeltaLimits) -> dict[str, ChangedFile]:
    """Return a change of each kind, by kind."""
    rest = "".join(f"line {number}\n" for number in range(30))
    base = fully_sent(
        {"gone.py": text, "old.py": rest, "same.py": rest, "full.py": text, "moved.py": rest + text}
    )
    base["back.py"] = SentFile(text, is_partial=True)
    current: dict[str, Any] = {
        "new.py": text,
        "same.py": f"{text}\n{rest}{text}",
        "full.py": text + "!",
        "moved.bin": "\0" + text,
        "renamed.py": rest + text + "x",
        "back.py": text,
        "old.py": rest,
    }
    deltas = build_delta(base, current, EXACT.count_text, limits)
    return {change.path: change for change in deltas.changed_files}


@given(hostile)
@example("a\r")
@example("> a\n> \n")
def test_marks_are_the_only_change(text: str) -> None:
    marked = mark(text)
    assert unmark(marked) == text
    assert all(line.startswith(MARK) for line in marked.splitlines())
    for block in (marked_block(text), marked_file(text)):
        assert ours(block) == []
        assert not block or block.endswith("\n")


@pytest.mark.parametrize("end", BREAKS, ids=ascii)
def test_a_line_ends_where_a_reader_sees_it_end(end: str) -> None:
    assert mark(f"a{end}## Diagnosis").splitlines()[-1] == "> ## Diagnosis"


def test_a_file_without_a_last_line_break_is_told_from_one_with_it() -> None:
    assert marked_file("a") == f"> a\n{NO_NEWLINE}"
    assert marked_file("a\n") == "> a\n"
    assert marked_file("") == ""
    assert marked_file("\n") == "> \n"


@given(hostile)
def test_nothing_in_a_phase_poses_as_ours(text: str) -> None:
    for shown in (f"x{text}", f"{text}x"):
        assert ours(context_of(shown).render()) == ours(context_of("harmless").render())


@given(hostile, st.sampled_from(["implementation_error", "bad_plan", "missing_context"]))
def test_nothing_in_a_retry_poses_as_ours(text: str, root_cause: str) -> None:
    text = f"x{text}"
    attempt, harmless = attempt_of(text, root_cause), attempt_of("harmless", root_cause)
    base, current = {"a.py": "old\n" * 9}, {"a.py": "old\n" * 9 + text}
    sent = plan_retry(attempt, fully_sent(base), current, EXACT).context
    expected = plan_retry(harmless, fully_sent(base), current, EXACT).context
    assert set(ours(sent.render())) <= {*ours(expected.render()), "[FULL FILE]"}
    assert len(ours(sent.render())) == len(set(ours(sent.render())))
    everything = FullRetry(context_of(text), text, text)
    assert ours(everything.render()) == ours(FullRetry(context_of("harmless"), "x", "x").render())


@given(hostile, st.sampled_from([UNCUT, DeltaLimits(3, 200), DeltaLimits()]))
def test_nothing_in_a_delta_poses_as_ours(text: str, limits: DeltaLimits) -> None:
    for change in changes_of(text, limits).values():
        first, *rest = ours(change.render())
        assert first == f"### {change.path}"
        assert len(rest) <= 1 + (change.kind == "renamed") + change.is_truncated
        assert set(rest) <= set(change.diff.splitlines())


@given(hostile)
def test_files_come_back_byte_for_byte(text: str) -> None:
    context = AgentContext(
        files=tuple(ContextFile(f"{number}.py", f"{text}{end}") for number, end in enumerate(BREAKS))
    )
    assert read_files(context.render()) == {file.path: file.content for file in context.files}


@given(hostile.filter(lambda text: "\0" not in text))
def test_diffs_come_back_byte_for_byte(text: str) -> None:
    rest = "".join(f"line {number}\n" for number in range(30))
    base = {"same.py": rest, "full.py": text, "moved.py": rest + text}
    current = {
        "new.py": text,
        "same.py": f"{text}\n{rest}{text}",
        "full.py": text + "!",
        "renamed.py": rest + text + "x",
    }
    for change in build_delta(fully_sent(base), current, EXACT.count_text, UNCUT).changed_files:
        received = read_change(change)
        old = base.get(change.renamed_from or change.path)
        assert apply_change(received, old) == current.get(change.path)


@every_payload
def test_a_path_stays_in_its_heading(text: str) -> None:
    path = f"a{text}b"
    assert len(ours(ContextFile(path, "x").render())) == 1
    assert ours(ContextFile(path, "x").render())[0].startswith("### a")
    for kind, diff in (
        ("new", "[NEW FILE]\nx"),
        ("deleted", "[DELETED]"),
        ("changed", "@@ -1 +1 @@\n-a\n+b\n"),
    ):
        lines = ours(ChangedFile(path, diff, kind).render())  # type: ignore[arg-type]
        assert lines[0].startswith("### a")
        assert lines[1:] == [line for line in diff.splitlines() if line in {"[NEW FILE]", "[DELETED]"}]


@every_payload
def test_a_memory_of_an_agent_writes_no_marker(text: str) -> None:
    for trust in ("agent", "external"):
        rendered = AgentContext(memories=({"content": text, "trust_level": trust},)).render()
        for marker in ("[END EXTERNAL DATA]", "[RETRY", "[NEW FILE]", "[END STRATEGY"):
            assert marker not in rendered


@every_payload
def test_a_task_gains_one_line_whatever_its_diagnosis_says(text: str) -> None:
    attempt = FailedAttempt("Fix it", "", "", Diagnosis(f"x{text}"[:64], text, text), 2)
    task, blank, line = retry_task(attempt).splitlines()
    assert (task, blank) == ("Fix it", "")
    assert line.startswith("[RETRY 2] Diagnosis: x")


@every_payload
def test_a_hint_has_two_lines_of_ours(text: str) -> None:
    opening, closing = ours(fence(text, STRATEGY_HINT, "inspiration"))
    assert (opening, closing) == ("[STRATEGY HINT digest: inspiration]", "[END STRATEGY HINT digest]")


@every_payload
def test_a_record_is_one_line_of_its_space(text: str) -> None:
    line = with_excerpt(line_start(text, text, NOW, [text]), flatten_to(text, 1_000))
    record = RecordSummary(1, NOW, 0, line, TOKENIZER.count(line))
    space = SpaceContext("Shop", "", (), (record,))
    rendered = render(space, [record])
    assert rendered == f"{header(space)}\n{line}"
    assert line.startswith("- ")
    assert len(line.splitlines()) == 1


@every_payload
def test_limits_count_the_text_without_its_marks(text: str) -> None:
    chars = list(context_of(text).field_chars())
    assert chars[0] == chars[1] == len(text)
    assert HeuristicCounter().count(context_of(text)) == sum(-(-count // 4) for count in chars)


def read_files(rendered: str) -> dict[str, str]:
    """Read the files from a phase's text, as its receiver can."""
    _, *blocks = re.split(r"^### (.*)\n", rendered, flags=re.MULTILINE)
    return {path: _read_block(block) for path, block in zip(blocks[::2], blocks[1::2], strict=True)}


def read_change(change: ChangedFile) -> ChangedFile:
    """Read the diff from a change's text. The headings before it are ours."""
    _, *lines = re.split(r"(?<=\n)", change.render())
    count = next((place for place, line in enumerate(lines) if line.startswith(MARK)), len(lines))
    headings, block = "".join(lines[:count]), "".join(lines[count:])
    if not block:
        return ChangedFile(change.path, headings.removesuffix("\n"), change.kind)
    return ChangedFile(change.path, headings + _read_block(block), change.kind)


def _read_block(block: str) -> str:
    if block.endswith(f"\n{NO_NEWLINE}"):
        return unmark(block.removesuffix(NO_NEWLINE)).removesuffix("\n")
    return unmark(block)
