"""filter_phase and retry_delta as a shell sees them."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.agents.patches import apply_diff
from contextopt.agents.models import Attempt
from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from tests.commands import Run
from tests.factories import make_agent_context, make_profile, make_task

BEFORE = {"cart.py": "".join(f"price_{number} = {number}\n" for number in range(80)), "web.py": "x\n" * 40}
AFTER = {**BEFORE, "cart.py": BEFORE["cart.py"].replace("price_7 = 7\n", "price_7 = 8\n")}
RETRY = {
    "task": "Fix the prices",
    "plan": "1. Read the cart\n2. Fix the price",
    "error": "E   assert 7 == 8",
    "before": BEFORE,
    "after": AFTER,
    "diagnosis": {"root_cause": "implementation_error", "reason": "Off by one", "suggested_action": "Count"},
    "attempt": 2,
}
type Answer = dict[str, Any]


@pytest.fixture
def context(write: Callable[[object], Path]) -> Path:
    return write(make_agent_context().to_json())


class TestFilterPhase:
    def test_the_documented_figures(self, run: Run, context: Path) -> None:
        code, out, err = run("filter_phase", "building", context, "--counter", "heuristic", "--json")
        answer: Answer = json.loads(out)
        assert (code, err, len(out.splitlines())) == (0, "", 1)
        assert answer.keys() == {
            "context", "full_tokens", "filtered_tokens", "saved_tokens", "saved_percent", "warnings",
        }  # fmt: skip
        assert (answer["full_tokens"], answer["filtered_tokens"]) == (5_175, 2_550)
        assert (answer["saved_tokens"], answer["saved_percent"]) == (2_625, 51)
        assert answer["warnings"] == []

    def test_the_teams_profile_and_log(self, run: Run, context: Path) -> None:
        make_profile(Team.objects.ensure_default(), budget_tokens=300)
        answer: Answer = json.loads(run("filter_phase", "building", context, "--json")[1])
        assert answer["filtered_tokens"] <= 300
        assert answer["warnings"]
        assert answer["context"]["task"] == make_agent_context().task
        row = Assembly.objects.get()
        assert (row.kind, row.actor, row.tokens_after) == ("phase", "command", answer["filtered_tokens"])
        run("filter_phase", "building", context, "--no-log")
        assert Assembly.objects.count() == 1

    def test_the_context_of_a_task(self, run: Run, context: Path) -> None:
        task = make_task(Team.objects.ensure_default())
        run("filter_phase", "building", context, "--task-id", str(task.pk))
        assert Assembly.objects.get().task == task
        for wrong in ("0", "first", str(task.pk + 1)):
            code, _, err = run("filter_phase", "building", context, "--task-id", wrong)
            assert (code, "task" in err) == (2, True)

    def test_an_unknown_phase_warns(self, run: Run, context: Path) -> None:
        code, out, _ = run("filter_phase", "dreaming", context, "--json", "--counter", "heuristic")
        answer: Answer = json.loads(out)
        assert (code, answer["saved_tokens"], len(answer["warnings"])) == (0, 0, 1)
        assert answer["context"] == make_agent_context().to_json()

    def test_standard_input(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        stdin = io.TextIOWrapper(io.BytesIO(b'\xef\xbb\xbf{"files": {"a.py": "one\\n"}, "docs": ["d"]}'))
        monkeypatch.setattr(sys, "stdin", stdin)
        answer: Answer = json.loads(run("filter_phase", "building", "-", "--json")[1])
        assert answer["context"]["files"] == [{"path": "a.py", "content": "one\n"}]

    def test_for_people(self, run: Run, context: Path) -> None:
        code, out, _ = run("filter_phase", "completing", context, "--counter", "heuristic")
        assert code == 0
        assert (
            "0 of 5,175 tokens (heuristic), 5,175 saved (100 %) against the full context, a budget of 2,000"
            in out
        )
        assert "the default profile, logged as assembly" in out

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("{", "FILE.json: is not JSON: "),
            ("[]", "FILE.json: must be an object"),
            ('{"tree": NaN}', "FILE.json: NaN is not JSON"),
            ("[" * 100_000, "FILE.json: is nested too deep"),
            ("9" * 5_000, "FILE.json: has a number with more than 4,300 digits"),
            ('{"tree": "\\ud800"}', "tree: contains a lone surrogate"),
            ('{"\\ud800": 1}', "FILE.json: must be text without lone surrogates"),
            ('{"tree": "\\u0000"}', "tree: contains a NUL"),
            ('{"files": [{"path": "a"}]}', "files.0.content: "),
            ('{"files": [{"path": "a", "content": ""}, {"path": "a", "content": ""}]}', "files.1.path: "),
            ('{"memories": [5]}', "memories.0"),
            ('{"memory": []}', "memory: "),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_bad_input_names_the_field(
        self, run: Run, write: Callable[[object], Path], content: str, message: str
    ) -> None:
        code, out, err = run("filter_phase", "building", write(content), "--json")
        assert (code, out) == (2, "")
        assert message in err
        assert not Assembly.objects.exists()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["building", "missing.json"], "does not exist"),
            (["x" * 65, "-"], "PHASE: "),
            ([" ", "-"], "PHASE: "),
        ],
    )
    def test_an_unusable_call(self, run: Run, arguments: list[str], message: str) -> None:
        code, out, err = run("filter_phase", *arguments)
        assert (code, out) == (2, "")
        assert message in err

    def test_an_unknown_encoding(self, run: Run, context: Path) -> None:
        code, _, err = run("filter_phase", "building", context, "--encoding", "morse")
        assert code == 2
        assert "--encoding: " in err


class TestRetryDelta:
    def ask(self, run: Run, path: Path, *options: str) -> Answer:
        code, out, err = run("retry_delta", path, "--json", *options)
        assert (code, err, len(out.splitlines())) == (0, "", 1)
        return json.loads(out)

    def test_the_fields_of_the_contract(self, run: Run, write: Callable[[object], Path]) -> None:
        answer = self.ask(run, write(RETRY))
        assert answer.keys() >= {
            "task_summary", "plan_summary", "latest_error", "changed_files", "diagnosis", "attempt_number",
            "estimated_tokens",
        }  # fmt: skip
        assert {"action", "full_context_tokens", "delta_tokens", "saved_tokens", "saved_percent"} <= set(
            answer
        )
        assert answer["action"] == "retry"
        assert answer["attempt_number"] == 2
        assert answer["task"].endswith(
            "[RETRY 2] Diagnosis: implementation_error — Off by one. Suggestion: Count"
        )
        [changed] = answer["changed_files"]
        assert (changed["path"], changed["kind"]) == ("cart.py", "changed")
        assert "-price_7 = 7\n+price_7 = 8\n" in changed["diff"]
        assert answer["saved_tokens"] == answer["full_context_tokens"] - answer["delta_tokens"] > 0

    @pytest.mark.parametrize("root_cause", ["environment_error", "impossible_task"])
    def test_nothing_sent_is_no_saving(
        self, run: Run, write: Callable[[object], Path], root_cause: str
    ) -> None:
        path = write(RETRY | {"diagnosis": {"root_cause": root_cause}})
        answer = self.ask(run, path)
        assert (answer["saved_tokens"], answer["saved_percent"]) == (None, None)
        assert "Nothing is sent, so nothing is saved." in run("retry_delta", path)[1]

    def test_the_baseline_is_named(self, run: Run, write: Callable[[object], Path]) -> None:
        assert "%) against the full context" in run("retry_delta", write(RETRY))[1]
        replan = write(RETRY | {"diagnosis": {"root_cause": "bad_plan"}})
        assert "against the task, plan and diagnosis in full" in run("retry_delta", replan)[1]

    def test_the_documented_retry_saves_most_of_it(self, run: Run, write: Callable[[object], Path]) -> None:
        files = {f"f{number}.py": f"line {number}\n" * 250 for number in range(5)}
        after = {path: text.replace("line", "l\nine", 1) for path, text in list(files.items())[:2]}
        asked = RETRY | {
            "before": files,
            "after": files | after,
            "context": {"tree": "t" * 2_000, "files": files, "memories": ["m" * 500] * 10},
        }
        answer = self.ask(run, write(asked), "--counter", "heuristic")
        assert answer["saved_percent"] > 80

    @pytest.mark.parametrize(
        ("root_cause", "action"),
        [
            ("bad_plan", "replan"),
            ("missing_context", "refetch"),
            ("impossible_task", "stop"),
            ("environment_error", "wait"),
            ("gremlins", "retry"),
        ],
    )
    def test_every_root_cause(
        self, run: Run, write: Callable[[object], Path], root_cause: str, action: str
    ) -> None:
        answer = self.ask(run, write(RETRY | {"diagnosis": {"root_cause": root_cause}}))
        assert answer["action"] == action
        assert (answer["full_context"] is not None) == (action == "refetch")
        assert answer["wait_seconds"] == (30 if action == "wait" else 0)
        assert (answer["error"] is not None) == (action == "stop")
        assert Assembly.objects.count() == (0 if action == "stop" else 1)

    def test_unchanged_files_are_absent(self, run: Run, write: Callable[[object], Path]) -> None:
        assert self.ask(run, write(RETRY | {"after": BEFORE}))["changed_files"] == []

    def test_new_deleted_and_binary_files(self, run: Run, write: Callable[[object], Path]) -> None:
        after = {"cart.py": BEFORE["cart.py"], "web.py": None, "new.py": "y = 1\n", "logo": "\x00\x01"}
        found = self.ask(run, write(RETRY | {"after": after}))["changed_files"]
        assert {file["path"]: file["kind"] for file in found} == {
            "web.py": "deleted", "new.py": "new", "logo": "binary",
        }  # fmt: skip

    def test_it_is_logged_unless_asked_not_to(self, run: Run, write: Callable[[object], Path]) -> None:
        path = write(RETRY)
        self.ask(run, path, "--no-log")
        assert not Assembly.objects.exists()
        answer = self.ask(run, path)
        row = Assembly.objects.get()
        assert (row.kind, row.tokens_saved) == ("retry", answer["saved_tokens"])
        assert not Attempt.objects.exists()
        assert run("verify_savings", "--json")[0] == 0

    def test_the_limits(self, run: Run, write: Callable[[object], Path]) -> None:
        error = "\n".join(f"src/m{number}.py:{number}: error: bad {number}" for number in range(400))
        before = {**BEFORE, "cart.py": BEFORE["cart.py"] * 9}
        after = {**BEFORE, "cart.py": before["cart.py"].replace("price_7", "cost_7")}
        path = write(
            RETRY | {"error": error, "before": before, "after": after, "context": {"tree": "src/\n" * 5_000}}
        )
        default = self.ask(run, path)
        assert default["changed_files"][0]["is_truncated"]
        short = self.ask(run, path, "--error-tokens", "100", "--diff-lines", "2", "--diff-characters", "150")
        assert len(short["latest_error"]) < len(default["latest_error"]) / 3
        assert "[… 195 more changed lines left out]" in short["changed_files"][0]["diff"]
        heuristic = self.ask(run, path, "--counter", "heuristic")
        assert 800 < len(heuristic["latest_error"]) <= 1_000
        [whole] = self.ask(run, path, "--uncut")["changed_files"]
        assert apply_diff(before["cart.py"], whole["diff"]) == after["cart.py"]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--error-tokens", "49"), "--error-tokens: "),
            (("--error-tokens", "many"), "--error-tokens: "),
            (("--diff-lines", "0"), "--diff-lines: "),
            (("--diff-characters", "2000000"), "--diff-characters: "),
            (("--uncut", "--diff-lines", "5"), "--uncut: "),
        ],
    )
    def test_a_wrong_limit_names_the_option(
        self, run: Run, write: Callable[[object], Path], options: tuple[str, ...], message: str
    ) -> None:
        code, out, err = run("retry_delta", write(RETRY), "--json", *options)
        assert (code, out) == (2, "")
        assert message in err
        assert not Assembly.objects.exists()

    def test_for_people(self, run: Run, write: Callable[[object], Path]) -> None:
        out = run("retry_delta", write(RETRY))[1]
        assert "## Changed files\n### cart.py" in out
        assert "Action: retry" in out
        assert "saved" in out

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"diagnosis": None}, "diagnosis: "),
            ({"diagnosis": {}}, "diagnosis.root_cause: "),
            ({"before": []}, "before: "),
            ({"after": {"a.py": 5}}, "after"),
            ({"plan": [5]}, "plan"),
            ({"plan": [{"name": "x"}]}, "plan.0.title: "),
            ({"attempt": 0}, "attempt: "),
            ({"context": {"tree": 5}}, "context.tree: "),
            ({"tusk": "x"}, "tusk: "),
        ],
        ids=str,
    )
    def test_bad_input_names_the_field(
        self, run: Run, write: Callable[[object], Path], change: dict[str, object], message: str
    ) -> None:
        code, out, err = run("retry_delta", write(RETRY | change), "--json")
        assert (code, out) == (2, "")
        assert message in err
        assert not Assembly.objects.exists()
