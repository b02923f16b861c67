from datetime import timedelta
from typing import Any, ClassVar

import pytest
import structlog
import time_machine
from django.db import DatabaseError, transaction
from django.utils import timezone

from contextopt import tasks
from contextopt.agents.models import Attempt, Blob, ReceiverFile, Task
from contextopt.agents.receivers import load_receiver_files
from contextopt.agents.retries import end_waits
from contextopt.agents.retrysettings import RetrySettings
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.verify import verify_assembly
from contextopt.engine.agents.deltas import SentFile
from contextopt.engine.agents.retries import FullRetry
from contextopt.engine.text.quoting import without_marks
from contextopt.engine.text.tokens import get_tokenizer
from contextopt.errors import Conflict, NotFound
from contextopt.people.models import Team
from tests.concurrency import at_once
from tests.factories import make_agent_context, make_attempt, make_task, make_team

LINES = [f"price_{number} = {number}\n" for number in range(80)]
BEFORE = {"cart.py": "".join(LINES), "web.py": "import cart\n" * 40}
AFTER = {**BEFORE, "cart.py": BEFORE["cart.py"].replace("price_7 = 7\n", "price_7 = 8\n")}


def changed_paths(result: Any) -> dict[str, str]:
    return {file.path: file.kind for file in result.retry.plan.context.changed_files}


def memory(task: Task, receiver: str = "agent") -> dict[str, SentFile]:
    return load_receiver_files(task, receiver)


def test_the_first_attempts_files_are_the_baseline(team: Team) -> None:
    task = make_task(team, files=BEFORE)
    result = make_attempt(task, files=AFTER)
    assert (result.attempt.number, result.attempt.action) == (1, "retry")
    assert changed_paths(result) == {"cart.py": "changed"}
    assert "> -price_7 = 7\n> +price_7 = 8\n" in result.retry.sent.render()
    assert result.attempt.delta_tokens < result.attempt.full_tokens / 2
    assert memory(task)["cart.py"] == SentFile(AFTER["cart.py"])


def test_a_second_attempt_is_told_of_what_changed_since_the_first(team: Team) -> None:
    task = make_task(team, files=BEFORE)
    make_attempt(task, files=AFTER)
    again = make_attempt(task, files=AFTER)
    assert (again.attempt.number, changed_paths(again)) == (2, {})
    gone = make_attempt(task, files={"cart.py": AFTER["cart.py"], "web.py": None, "new.py": "x = 1\n"})
    assert (gone.attempt.number, changed_paths(gone)) == (3, {"web.py": "deleted", "new.py": "new"})
    assert "[RETRY 3] Diagnosis: implementation_error — Off by one" in gone.retry.plan.task
    assert set(memory(task)) == {"cart.py", "new.py"}


def test_each_receiver_has_a_memory_of_its_own(team: Team) -> None:
    task = make_task(team, files=BEFORE, receiver="builder")
    seen = make_attempt(task, files=AFTER, receiver="builder")
    unseen = make_attempt(task, files=AFTER, receiver="reviewer")
    assert changed_paths(seen) == {"cart.py": "changed"}
    assert changed_paths(unseen) == {"cart.py": "new", "web.py": "new"}
    assert [seen.attempt.number, unseen.attempt.number] == [1, 2]
    # The second delta sent nothing whole, so later deltas may not build on it.
    assert memory(task, "reviewer")["cart.py"] == SentFile(None, is_partial=True)


def test_before_says_what_others_sent(team: Team) -> None:
    task = make_task(team)
    assert changed_paths(make_attempt(task, files=AFTER, before=BEFORE)) == {"cart.py": "changed"}


def test_a_cut_delta_does_not_move_the_base(team: Team) -> None:
    task = make_task(team, files=BEFORE)
    rewritten = {**BEFORE, "cart.py": BEFORE["cart.py"].replace(" = ", " = 10 + ")}
    cut = make_attempt(task, files=rewritten)
    assert cut.retry.plan.context.changed_files[0].is_truncated
    assert memory(task)["cart.py"] == SentFile(BEFORE["cart.py"], is_partial=True)
    assert Assembly.objects.get(pk=cut.attempt.assembly_id).truncated
    small = make_attempt(task, files=AFTER)
    assert "> -price_7 = 7\n> +price_7 = 8\n" in small.retry.sent.render()
    assert memory(task)["cart.py"] == SentFile(AFTER["cart.py"])


@pytest.mark.parametrize(
    ("root_cause", "action"),
    [
        ("bad_plan", "replan"),
        ("implementation_error", "retry"),
        ("cosmic_rays", "retry"),
        ("missing_context", "refetch"),
        ("environment_error", "wait"),
        ("impossible_task", "stop"),
    ],
)
def test_the_action_follows_the_root_cause(team: Team, root_cause: str, action: str) -> None:
    task = make_task(team, files=BEFORE)
    attempt = make_attempt(task, files=AFTER, root_cause=root_cause).attempt
    attempt.refresh_from_db()
    assert (attempt.root_cause, attempt.action) == (root_cause, action)
    assert attempt.state == ("waiting" if action == "wait" else "ready")
    assert attempt.retry_context["diagnosis"]["root_cause"] == root_cause


def test_a_bad_plan_sends_the_planner_no_files(team: Team) -> None:
    task = make_task(team, files=BEFORE)
    result = make_attempt(task, files=AFTER, root_cause="bad_plan")
    assert changed_paths(result) == {}
    assert memory(task)["cart.py"].content == BEFORE["cart.py"]


@pytest.mark.parametrize("root_cause", ["environment_error", "impossible_task"])
def test_a_retry_that_sends_nothing_saves_nothing(team: Team, root_cause: str) -> None:
    result = make_attempt(make_task(team, files=BEFORE), files=AFTER, root_cause=root_cause)
    assert (result.attempt.saved_tokens, result.attempt.saved_percent) == (None, None)
    assert result.retry.to_json() | {"saved_tokens": None, "saved_percent": None} == result.retry.to_json()


def test_a_replan_is_compared_with_a_full_replan(team: Team) -> None:
    task = make_task(team, files=BEFORE, description="Round prices. " * 50)
    result = make_attempt(task, files=AFTER, root_cause="bad_plan", error="Traceback\n" * 100)
    payload = AssemblyPayload.objects.select_related("assembly").get(pk=result.attempt.assembly_id)
    assert payload.ledger["baseline"] == "the task, plan and diagnosis in full"
    assert task.description in payload.baseline_text
    assert "price_7" not in payload.baseline_text
    # No planner is sent the error, so leaving it out saves nothing.
    assert "Traceback" not in payload.baseline_text
    assert 0 < payload.assembly.tokens_saved == result.attempt.saved_tokens < result.attempt.full_tokens
    assert verify_assembly(payload) == []


def test_missing_context_sends_everything_again(team: Team) -> None:
    task = make_task(team, files=BEFORE)
    context = make_agent_context().to_json()
    result = make_attempt(task, files=AFTER, root_cause="missing_context", context=context)
    payload = AssemblyPayload.objects.get(pk=result.attempt.assembly_id)
    assert payload.text.startswith("## Package manifest\n> ")
    assert payload.baseline_text == without_marks(payload.text)
    assert result.attempt.delta_tokens > result.attempt.full_tokens
    assert result.retry.to_json()["full_context"] == context
    assert result.retry.sent.render().startswith("## Package manifest")
    assert memory(task)["src/module_0.py"] == SentFile("f" * 2_000)


def test_an_impossible_task_takes_no_more_attempts(team: Team) -> None:
    task = make_task(team, files=BEFORE)
    result = make_attempt(task, files=AFTER, root_cause="impossible_task")
    task.refresh_from_db()
    assert task.state == "impossible"
    assert result.retry.error == "The task is impossible: Off by one"
    assert result.attempt.assembly is None
    assert not Assembly.objects.exists()
    with pytest.raises(Conflict, match="impossible"):
        make_attempt(task)


class TestWaiting:
    def test_an_environment_error_waits_half_a_minute(self, team: Team) -> None:
        task = make_task(team, files=BEFORE)
        attempt = make_attempt(task, files=AFTER, root_cause="environment_error").attempt
        assert attempt.available_at - attempt.created_at == timedelta(seconds=30)
        assert attempt.delta_tokens == 0
        assert memory(task)["cart.py"].content == BEFORE["cart.py"]
        assert end_waits() == 0
        with time_machine.travel(timezone.now() + timedelta(seconds=31)):
            assert (end_waits(), end_waits()) == (1, 0)
        attempt.refresh_from_db()
        assert attempt.state == "ready"

    @pytest.mark.parametrize("count", [2, 20])
    def test_all_waits_end_at_once(self, team: Team, count: int, django_assert_num_queries: Any) -> None:
        for _ in range(count):
            make_attempt(make_task(team), root_cause="environment_error")
        with (
            time_machine.travel(timezone.now() + timedelta(minutes=2)),
            # A savepoint, the waits that are over, their new state, and the end of the savepoint.
            django_assert_num_queries(4),
        ):
            assert end_waits() == count
        assert {attempt.state for attempt in Attempt.objects.all()} == {"ready"}

    def test_the_sweep_ends_what_a_lost_job_left(self, team: Team) -> None:
        make_attempt(make_task(team), root_cause="environment_error")
        with time_machine.travel(timezone.now() + timedelta(minutes=2)):
            tasks.sweep()
        assert Attempt.objects.get().state == "ready"

    def test_the_job_ends_them_too(self, team: Team) -> None:
        make_attempt(make_task(team), root_cause="environment_error")
        with time_machine.travel(timezone.now() + timedelta(minutes=2)):
            tasks.end_retry_waits()
        assert Attempt.objects.get().state == "ready"


class TestLog:
    @pytest.mark.parametrize("counter", ["tokenizer", "heuristic"])
    @pytest.mark.parametrize(
        "root_cause", ["implementation_error", "bad_plan", "missing_context", "environment_error"]
    )
    def test_every_stored_figure_is_computed_again(self, team: Team, root_cause: str, counter: str) -> None:
        task = make_task(team, files=BEFORE)
        result = make_attempt(task, files=AFTER, root_cause=root_cause, counter=counter)
        payload = AssemblyPayload.objects.select_related("assembly").get(pk=result.attempt.assembly_id)
        assert verify_assembly(payload) == []
        row = payload.assembly
        is_sent = result.attempt.action != "wait"
        assert (row.kind, row.tokens_before) == ("retry", result.attempt.full_tokens if is_sent else None)
        assert row.tokens_after == result.attempt.delta_tokens
        assert (row.tokens_saved, row.utilisation) == (result.attempt.saved_tokens, None)
        assert payload.text == (result.retry.sent.render() if is_sent else "")
        payload.baseline_text = f"{payload.baseline_text} and more"
        payload.ledger["chars"]["before"] = [1]
        assert "tokens_before" in {found.figure for found in verify_assembly(payload)}

    def test_a_wait_of_the_version_before_still_holds(self, team: Team) -> None:
        """Rows never change: the earlier version stored a wait with the full context as its baseline."""
        result = make_attempt(make_task(team, files=BEFORE), files=AFTER, root_cause="environment_error")
        payload = AssemblyPayload.objects.select_related("assembly").get(pk=result.attempt.assembly_id)
        full = FullRetry(result.retry.failed.context, "", "")
        payload.baseline_text = full.render()
        payload.ledger["chars"]["before"] = list(full.field_chars())
        tokens = result.retry.counter.count(full)
        payload.assembly.tokens_before = payload.assembly.tokens_available = tokens
        assert verify_assembly(payload) == []
        assert payload.assembly.tokens_saved is None

    def test_the_event(self, team: Team) -> None:
        task = make_task(team, files=BEFORE)
        with structlog.testing.capture_logs() as events:
            attempt = make_attempt(task, files=AFTER).attempt
        assert events == [
            {
                "event": "retry_delta_computed", "log_level": "info", "assembly_id": attempt.assembly_id,
                "attempt": 1, "full_context_tokens": attempt.full_tokens,
                "delta_tokens": attempt.delta_tokens, "saved_tokens": attempt.saved_tokens,
                "saved_percent": attempt.saved_percent, "changed_files_count": 1,
                "root_cause": "implementation_error", "task_id": task.pk, "receiver": "agent",
            }
        ]  # fmt: skip

    def test_the_event_of_a_wait_knows_no_saving(self, team: Team) -> None:
        with structlog.testing.capture_logs() as events:
            make_attempt(make_task(team, files=BEFORE), files=AFTER, root_cause="environment_error")
        assert (events[-1]["saved_tokens"], events[-1]["saved_percent"]) == (None, None)

    def test_an_attempt_never_changes(self, team: Team) -> None:
        attempt = make_attempt(make_task(team)).attempt
        with pytest.raises(DatabaseError, match="never change"), transaction.atomic():
            Attempt.objects.filter(pk=attempt.pk).update(delta_tokens=0)

    def test_an_attempt_outlives_its_assembly(self, team: Team) -> None:
        attempt = make_attempt(make_task(team)).attempt
        Assembly.objects.all().delete()
        attempt.refresh_from_db()
        assert attempt.assembly is None


def test_the_same_external_id_is_a_conflict(team: Team, other_team: Team) -> None:
    make_task(team, external_id="T-1")
    make_task(other_team, external_id="T-1")
    make_task(team)
    make_task(team)
    with pytest.raises(Conflict, match="T-1"):
        make_task(team, external_id="T-1", files=BEFORE)
    assert not Blob.objects.exists()


def test_an_expected_number_that_is_taken_is_a_conflict(team: Team) -> None:
    task = make_task(team)
    assert make_attempt(task, attempt=1).attempt.number == 1
    with pytest.raises(Conflict, match="is 2, not 1"):
        make_attempt(task, attempt=1)
    assert Attempt.objects.count() == 1


def test_a_task_of_another_team_is_not_found(team: Team, other_team: Team) -> None:
    task = make_task(other_team)
    task.team_id = team.pk
    with pytest.raises(NotFound):
        make_attempt(task)


class TestLimits:
    ERROR = "\n".join(f"src/m{number}.py:{number}: error: bad {number}" for number in range(400))
    CHANGED: ClassVar = {**BEFORE, "cart.py": "".join(f"cost_{number} = {number}\n" for number in range(80))}

    def send(self, task: Task, **asked: Any) -> tuple[int, str]:
        """Return the tokens of the error that is sent, and the diff of the cart."""
        context = make_attempt(task, files=self.CHANGED, error=self.ERROR, **asked).retry.plan.context
        [cart] = context.changed_files
        return get_tokenizer("cl100k_base").count(context.latest_error), cart.diff

    def test_are_those_asked_for_then_the_teams_then_the_defaults(self, team: Team) -> None:
        RetrySettings.objects.create(team=make_team("other"), error_tokens=50)
        tokens, diff = self.send(make_task(team, files=BEFORE))
        assert 350 < tokens <= 450
        assert "more changed lines left out" in diff
        RetrySettings.objects.create(team=team, error_tokens=200, diff_lines=3, diff_characters=2_000)
        tokens, diff = self.send(make_task(team, files=BEFORE))
        assert 150 < tokens <= 200
        assert diff.endswith("[… 157 more changed lines left out]")
        tokens, diff = self.send(make_task(team, files=BEFORE), error_tokens=1_000, diff_lines=5)
        assert 800 < tokens <= 1_000
        assert diff.endswith("[… 155 more changed lines left out]")

    def test_uncut_is_whole_and_becomes_the_base(self, team: Team) -> None:
        task = make_task(team, files=BEFORE)
        _, diff = self.send(task, uncut=True)
        assert "left out" not in diff
        assert memory(task)["cart.py"] == SentFile(self.CHANGED["cart.py"])

    def test_are_kept_with_the_logged_retry(self, team: Team) -> None:
        make_attempt(make_task(team, files=BEFORE), files=AFTER, error_tokens=90)
        request = AssemblyPayload.objects.get().request
        assert (request["error_tokens"], request["diff_lines"], request["diff_characters"]) == (90, 20, 500)

    def test_are_checked_by_the_database(self, team: Team) -> None:
        for wrong in ({"error_tokens": 49}, {"diff_lines": 0}, {"diff_characters": 1_000_001}):
            with pytest.raises(DatabaseError), transaction.atomic():
                RetrySettings.objects.create(team=team, **wrong)


@pytest.mark.parametrize("files", [2, 20])
def test_the_statements_do_not_grow_with_the_files(team: Team, files: int, django_assert_num_queries) -> None:
    before = {f"m{number}.py": f"a = {number}\n" * 30 for number in range(files)}
    after = {path: content + "b = 1\n" for path, content in before.items()}
    task = make_task(team, files=before)
    # savepoint, team and task held, number, memory, the team's limits, contents found and stored, memory
    # stored; the log's savepoint, row, payload and release; the task, the attempt, release
    with django_assert_num_queries(16):
        make_attempt(task, files=after)


@pytest.mark.django_db(transaction=True)
class TestAtOnce:
    def test_attempts_never_mix(self) -> None:
        task = make_task(make_team(), files=BEFORE)
        versions = [
            {**BEFORE, "cart.py": BEFORE["cart.py"].replace("price_7 = 7\n", f"price_7 = 7{number}\n")}
            for number in range(6)
        ]
        results = at_once(*[lambda files=files: make_attempt(task, files=files) for files in versions])
        ordered = sorted(results, key=lambda result: result.attempt.number)
        assert [result.attempt.number for result in ordered] == [1, 2, 3, 4, 5, 6]
        # Each diff starts from the content that the previous attempt sent.
        old = "price_7 = 7\n"
        for result in ordered:
            sent = result.retry.plan.context.changed_files[0].diff
            new = next(line[1:] for line in sent.splitlines(keepends=True) if line.startswith("+price"))
            assert f"-{old}+{new}" in sent
            old = new
        assert old in memory(task)["cart.py"].content

    def test_receivers_at_once(self) -> None:
        task = make_task(make_team(), files=BEFORE, receiver="one")
        one, two = at_once(
            lambda: make_attempt(task, files=AFTER, receiver="one"),
            lambda: make_attempt(task, files=AFTER, receiver="two"),
        )
        assert {one.attempt.number, two.attempt.number} == {1, 2}
        assert changed_paths(one) == {"cart.py": "changed"}
        assert changed_paths(two) == {"cart.py": "new", "web.py": "new"}

    def test_tasks_with_the_same_contents_do_not_block_each_other(self) -> None:
        team = make_team()
        files = {f"f{number}": f"content {number}\n" for number in range(40)}
        turned = dict(reversed(files.items()))
        at_once(
            *[lambda: make_task(team, files=files), lambda: make_task(team, files=turned)] * 3,
        )
        assert Blob.objects.count() == 40
        assert ReceiverFile.objects.count() == 240

    def test_the_same_expected_number_is_given_once(self) -> None:
        task = make_task(make_team())

        def post() -> str:
            try:
                return f"number {make_attempt(task, attempt=1).attempt.number}"
            except Conflict:
                return "conflict"

        assert sorted(at_once(post, post, post)) == ["conflict", "conflict", "number 1"]
