"""compress_findings as a shell sees it."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from contextopt.engine.text.tokens import get_tokenizer
from tests.commands import Run
from tests.contextopt.engine.findings import make_findings

ONE = {"category": "risks", "content": "It may fail."}


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command on a document; return its exit code, standard output and standard error."""

    def run_command(document: object, *options: str) -> tuple[int, str, str]:
        path = tmp_path / "findings.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        code, complaint = 0, ""
        try:
            call_command("compress_findings", str(path), *options)
        except CommandError as error:
            code, complaint = error.returncode, str(error)
        out, err = capsys.readouterr()
        return code, out, err + complaint

    return run_command


def analysis(*findings: Any) -> dict[str, Any]:
    return {"phase": "analysis", "findings": list(findings)}


def test_the_example_as_json(run: Run) -> None:
    document = analysis(*(finding.to_json() for finding in make_findings()))
    code, out, err = run(document, "--json")
    answer = json.loads(out)
    assert (code, err) == (0, "")
    assert list(answer) == ["brief", "critical_findings", "token_count", "discarded", "warnings"]
    assert answer["critical_findings"] == ["F-001", "F-002", "F-003", "F-009"]
    assert answer["token_count"] == get_tokenizer("cl100k_base").count(answer["brief"]) <= 450
    assert answer["discarded"] == [{"id": "F-014", "reason": "speculation"}]


def test_in_words(run: Run) -> None:
    critical = {"category": "constraints", "content": {"name": "Never"}, "tags": ["critical"]}
    code, out, err = run(analysis(ONE, critical, {**ONE, "confidence": 0.1}))
    assert (code, err) == (0, "")
    assert out.startswith(
        'risks:\nIt may fail.\n\nF-002 [constraints] confidence 0.5; tags critical\n{"name": "Never"}'
    )
    assert "Left out: F-003 (speculation)" in out


def test_a_budget_of_ones_own(run: Run) -> None:
    document = analysis(*(finding.to_json() for finding in make_findings()))
    answer = json.loads(run(document, "--json", "--budget", "100")[1])
    assert answer["token_count"] <= 100
    assert answer["critical_findings"] == ["F-001", "F-002", "F-003", "F-009"]


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ("{", "FILE.json: is not JSON"),
        ('{"phase": "analysis", "findings": [{"confidence": NaN}]}', "FILE.json: NaN is not JSON"),
        ("[" * 100_000, "FILE.json: is nested too deep"),
        ({"findings": []}, "phase: "),
        ({"phase": "analysis"}, "findings: "),
        ({"phase": "analysys", "findings": []}, "phase: must be 'analysis', 'design' or 'implement"),
        ({"phase": "analysis", "findings": {}}, "findings: "),
        (analysis(3), "findings.0: must be an object"),
        (analysis({**ONE, "depends_on": ["F-009"]}), "findings.0.depends_on: there is no finding F-009"),
        (analysis(ONE, {**ONE, "confidence": 1.2}), "findings.1.confidence: must be from 0 to 1, not 1.2"),
        (analysis({**ONE, "content": json.loads('{"a":' * 25 + "1" + "}" * 25)}), "findings.0.content.a"),
    ],
)  # fmt: skip
def test_bad_input_is_named(run: Run, document: object, complaint: str) -> None:
    code, out, err = run(document, "--json")
    assert (code, out) == (2, "")
    assert err.startswith(complaint)


@pytest.mark.parametrize(
    ("option", "value", "fault"),
    [
        ("--budget", "0", "must be from 20 to 200,000, not 0"),
        ("--budget", "99999999", "must be from 20 to 200,000, not 99,999,999"),
        ("--encoding", "klingon", ""),
    ],
)
def test_bad_options_are_named(run: Run, option: str, value: str, fault: str) -> None:
    code, out, err = run(analysis(ONE), option, value)
    assert (code, out) == (2, "")
    assert err.startswith(f"{option}: {fault}")
