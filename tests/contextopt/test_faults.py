"""Errors in an input are named in the caller's words."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from contextopt.agents.handoffs.inputs import FindingIn
from contextopt.agents.inputs import AgentContextIn, AttemptIn, FilterIn, ProfileIn, RetryIn
from contextopt.api.assemblies import AssemblyQuery
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.inputs import field_problems
from contextopt.repositories.inputs import RepositoryIn
from contextopt.spaces.importing.jsonfiles import read_lines
from contextopt.spaces.importing.rows import Lines, Rejection
from contextopt.spaces.inputs import RecordIn
from contextopt.strictjson import DuplicateKey, check_keys, has_more_values, read_json, string_end
from memory.memories.inputs import MemoryIn, RatingIn
from memory.search.inputs import SearchIn
from memory.strategies.inputs import CompletionIn
from tests.speed import within

RETRY = {"task": "t", "before": {}, "after": {}, "diagnosis": {"root_cause": "x"}}
FINDING = {"category": "risks", "content": {"risk": "x"}}
ASKED = {"space": "a"}
REPORT = {"description": "x", "quality_score": 9, "plan": "a\nb"}
NUMBER = "must be a number, not true or false"
WHOLE = "must be a whole number"
STEP = "must be text or an object with a title"
LONG = "must have at most 100,000 characters, not 100,001"
SLUG = "must contain only the letters A to Z, digits, hyphens and underscores"
START = "and begin with neither a dot nor a hyphen"
MOMENT = "must be a date-time, such as 2026-01-31T12:00:00Z"
FIELDS = "'tree', 'tree_paths', 'package_manifest', 'files', 'memories', 'docs' or 'tools'"
PYTHON = re.compile(
    r"function|lambda|partial|object at|instance of|\bdict|\bstr\b|\bint\b|[A-Z]\w+(?:In|Patch)\b"
    r"|None|True|False|<|>|\["
)

WRONG: list[tuple[type[BaseModel], object, dict[str, str]]] = [
    (RetryIn, RETRY | {"attempt": True}, {"attempt": NUMBER}),
    (RetryIn, RETRY | {"attempt": 1.5}, {"attempt": "must be a whole number"}),
    (RetryIn, RETRY | {"attempt": None}, {"attempt": "must be a whole number"}),
    (RetryIn, RETRY | {"attempt": "two"}, {"attempt": "must be a whole number"}),
    (RetryIn, RETRY | {"attempt": 0}, {"attempt": "must be at least 1"}),
    (RetryIn, RETRY | {"attempt": 2**31}, {"attempt": "must be at most 2,147,483,647"}),
    (AttemptIn, {"files": {}, "diagnosis": {"root_cause": "x"}, "attempt": False}, {"attempt": NUMBER}),
    (RetryIn, RETRY | {"plan": 1}, {"plan": "must be text or a list of steps"}),
    (RetryIn, RETRY | {"plan": {}}, {"plan": "must be text or a list of steps"}),
    (RetryIn, RETRY | {"plan": [1]}, {"plan.0": STEP}),
    (RetryIn, RETRY | {"plan": ["a", ["b"]]}, {"plan.1": STEP}),
    (RetryIn, RETRY | {"plan": ["a", "b\0"]}, {"plan.1": "contains a NUL character, which cannot be stored"}),
    (RetryIn, RETRY | {"plan": "x" * 100_001}, {"plan": LONG}),
    (RetryIn, RETRY | {"plan": ["x"] * 1_001}, {"plan": "must have at most 1,000 items, not 1,001"}),
    (RetryIn, RETRY | {"task": "x" * 100_001}, {"task": LONG}),
    (RetryIn, RETRY | {"task": None}, {"task": "must be text"}),
    (RetryIn, RETRY | {"task": True}, {"task": "must be text"}),
    (RetryIn, RETRY | {"before": []}, {"before": "must be an object"}),
    (RetryIn, RETRY | {"before": {"src/a b.py": 5}}, {"before": "'src/a b.py' must be text or null"}),
    (RetryIn, RETRY | {"diagnosis": []}, {"diagnosis": "must be an object"}),
    (RetryIn, RETRY | {"diagnosis": {}}, {"diagnosis.root_cause": "is missing"}),
    (RetryIn, RETRY | {"context": 5}, {"context": "must be an object"}),
    (RetryIn, RETRY | {"tusk": 1}, {"tusk": "is not a known field"}),
    (RetryIn, [], {"body": "must be an object"}),
    (RetryIn, "text", {"body": "must be an object"}),
    (RetryIn, None, {"body": "must be an object"}),
    (AgentContextIn, {"memories": [5]}, {"memories.0": "must be text or an object"}),
    (AgentContextIn, {"memories": [["x"]]}, {"memories.0": "must be text or an object"}),
    (AgentContextIn, {"docs": ["\0"]}, {"docs.0": "contains a NUL character, which cannot be stored"}),
    (AgentContextIn, {"docs": "x"}, {"docs": "must be a list"}),
    (AgentContextIn, {"tree_paths": [True]}, {"tree_paths.0": "must be text"}),
    (AgentContextIn, {"files": 5}, {"files": "must be a list"}),
    (AgentContextIn, {"files": [{"path": "a"}]}, {"files.0.content": "is missing"}),
    (AgentContextIn, {"files": [3]}, {"files.0": "must be an object"}),
    (FilterIn, {"context": {}, "counter": "guess"}, {"counter": "must be 'tokenizer' or 'heuristic'"}),
    (ProfileIn, {"budget_tokens": True}, {"budget_tokens": NUMBER}),
    (ProfileIn, {"fields": ["forest"]}, {"fields.0": f"must be {FIELDS}"}),
    (FindingIn, FINDING | {"confidence": True}, {"confidence": NUMBER}),
    (FindingIn, FINDING | {"confidence": "high"}, {"confidence": "must be a number"}),
    (FindingIn, FINDING | {"confidence": 1.5}, {"confidence": "must be at most 1"}),
    (FindingIn, FINDING | {"content": "x"}, {"content": "must be an object"}),
    (FindingIn, FINDING | {"category": ""}, {"category": "must have at least 1 character"}),
    (FindingIn, FINDING | {"implementation_ready": 5}, {"implementation_ready": "must be true or false"}),
    (CompletionIn, REPORT | {"quality_score": True}, {"quality_score": NUMBER}),
    (CompletionIn, REPORT | {"total_attempts": True}, {"total_attempts": NUMBER}),
    (CompletionIn, REPORT | {"tokens_saved": False}, {"tokens_saved": NUMBER}),
    (CompletionIn, REPORT | {"attempts": [{"step_index": True}]}, {"attempts.0.step_index": NUMBER}),
    (CompletionIn, REPORT | {"task_id": True}, {"task_id": NUMBER}),
    (CompletionIn, [1], {"body": "must be an object"}),
    (AssemblyIn, {"space": "a b"}, {"space": SLUG}),
    (RepositoryIn, {"name": ".git"}, {"name": f"{SLUG.replace('digits,', 'digits, dots,')}, {START}"}),
    (AssemblyQuery, {"sha256": "A" * 64}, {"sha256": "must be 64 digits from 0 to 9 and a to f"}),
    (AssemblyIn, ASKED | {"window_days": True}, {"window_days": f"{NUMBER}; or must be 'all'"}),
    (AssemblyIn, ASKED | {"window_days": "many"}, {"window_days": f"{WHOLE}; or must be 'all'"}),
    (AssemblyIn, ASKED | {"max_records": 0}, {"max_records": "must be at least 1; or must be 'all'"}),
    (AssemblyIn, ASKED | {"context_tokens": True}, {"context_tokens": NUMBER}),
    (AssemblyIn, ASKED | {"recency_weight": True}, {"recency_weight": "must be a number"}),
    (AssemblyIn, ASKED | {"recency_weight": 0.1234}, {"recency_weight": "must have at most 3 decimals"}),
    (AssemblyIn, ASKED | {"stage": True}, {"stage": "must be 2, 3, 4 or 5"}),
    (AssemblyIn, ASKED | {"as_of": "soon"}, {"as_of": MOMENT}),
    (AssemblyIn, ASKED | {"query": "x" * 100_001}, {"query": LONG}),
    (RecordIn, {"title": "x", "position": True}, {"position": NUMBER}),
    (RecordIn, {"title": "x", "view_count": True}, {"view_count": NUMBER}),
    (RecordIn, {"title": "x", "date": "2026-13-01"}, {"date": "is not a date, such as 2026-01-31"}),
    (RecordIn, {"title": "x", "tags": ["a"] * 51}, {"tags": "must have at most 50 items, not 51"}),
    (RecordIn, {"title": "x", "metadata": []}, {"metadata": "must be an object"}),
    (RecordIn, {"title": "x", "pinned": "maybe"}, {"pinned": "must be true or false"}),
    (MemoryIn, {"content": "x", "language": "en"}, {"language": "is not a known field"}),
    (RatingIn, {"rating": True}, {"rating": NUMBER}),
    (SearchIn, {"query": "x", "limit": True}, {"limit": NUMBER}),
]  # fmt: skip


@pytest.mark.parametrize(("model", "value", "faults"), WRONG, ids=lambda value: str(value)[:50])
def test_each_fault_is_named_in_the_callers_words(
    model: type[BaseModel], value: object, faults: dict[str, str]
) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(value)
    found = {problem.field: problem.message for problem in field_problems(caught.value)}
    assert found == faults
    for field, message in found.items():
        assert not PYTHON.search(field)
        assert not PYTHON.search(message)


@pytest.mark.parametrize(("model", "value", "faults"), WRONG[:8], ids=lambda value: str(value)[:50])
def test_numbers_that_are_numbers_pass(model: type[BaseModel], value: object, faults: dict[str, str]) -> None:
    assert isinstance(value, dict)
    assert model.model_validate(value | dict.fromkeys(faults, 1 if "plan" not in faults else "1. Do"))


def findings_text(**changes: object) -> str:
    return json.dumps({"phase": "analysis", "findings": [FINDING | changes]})


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("command", "text", "message"),
    [
        (["retry_delta"], "[]", "FILE.json: must be an object"),
        (["retry_delta"], json.dumps(RETRY | {"plan": [1]}), f"plan.0: {STEP}"),
        (["retry_delta"], json.dumps(RETRY | {"attempt": True}), f"attempt: {NUMBER}"),
        (["retry_delta"], '{"task": "a", "task": "b"}', 'FILE.json: has the key "task" twice in one object'),
        (["retry_delta"], '{"before": {"a;b": "", "a;b": ""}}', 'has the key "a;b" twice in one object'),
        (["filter_phase", "building"], '{"docs": [{"x": 1, "x": 1}]}', 'has the key "x" twice'),
        (["complete_task"], "5", "FILE.json: must be an object"),
        (["compress_findings"], findings_text(content=5), "findings.0.content: must be an object or text"),
        (["compress_findings"], findings_text(decision=True), "findings.0.decision: must be one of open, "),
    ],
)  # fmt: skip
def test_commands_name_the_field(command: list[str], text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "input.json"
    path.write_text(text)
    with pytest.raises(CommandError) as caught:
        call_command(*command, str(path))
    assert caught.value.returncode == 2
    assert message in str(caught.value)
    assert not re.search("function|instance of|In\\b", str(caught.value))


def test_a_key_that_comes_twice_is_refused_wherever_it_is() -> None:
    for text in ('{"a": 1, "a": 2}', '[{"b": {"a": 1, "a": 1}}]', '{"a": 1, "\\u0061": 2}'):
        with pytest.raises(DuplicateKey):
            read_json(text)
        with pytest.raises(DuplicateKey):
            check_keys(text.encode())
    value: Any = {"a": [{"a": 1}, {"a": 2}], "A": None}
    assert read_json(json.dumps(value)) == value
    check_keys(json.dumps(value).encode())


def test_a_line_with_a_key_twice_is_rejected() -> None:
    lines = Lines(io.BytesIO(b'{"title": "a", "title": "b"}\n{"title": "c"}\n'))
    first, second = read_lines(lines, "")
    assert isinstance(first, Rejection)
    assert (first.line, first.error) == (1, 'has the key "title" twice in one object')
    assert not isinstance(second, Rejection)


@pytest.mark.parametrize(
    ("text", "count"),
    [("1", 0), ("[]", 1), ("[1, 2]", 2), ('{"a": [], "b": {}}', 4), ('["a,b[", "\\",{"]', 2), ('["a,b', 1)],
)
def test_values_are_counted_without_those_in_strings(text: str, count: int) -> None:
    assert not has_more_values(text.encode(), count)
    assert count == 0 or has_more_values(text.encode(), count - 1)


@pytest.mark.parametrize("part", [b"[],", b'"",', b'\\"', b'"a":{', b'",', b"\\"])
def test_counting_values_takes_one_pass(part: bytes) -> None:
    with within(2):
        has_more_values(part * 3_000_000, 500_000)


@given(st.text('"\\\\a', max_size=30), st.integers(0, 9))
def test_strings_end_at_their_quote(text: str, start: int) -> None:
    body = b'"' * (start + 1) + text.encode()
    expected = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)').match(body, start)
    assert expected is not None
    assert string_end(body, start) == expected.end()


def test_strings_count_as_values() -> None:
    """Otherwise a text of nothing but strings takes long to count, since no mark ends the count."""
    assert has_more_values(b'","' * 200, 90)
    assert not has_more_values(b"[" + b'",",' * 90 + b'","]', 91)


def test_checking_keys_is_cheap() -> None:
    rows = [
        {"title": f"Record {number}", "notes": "word " * 60, "tags": ["a", "b"]} for number in range(5_000)
    ]
    body = json.dumps({"records": rows}).encode()
    with within(0.5):
        check_keys(body)
