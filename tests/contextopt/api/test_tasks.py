import subprocess

import pytest

from benchmarks.agents.patches import apply_diff
from contextopt.agents.models import Attempt, ReceiverFile, Task
from contextopt.assemblies.models import Assembly
from contextopt.engine.text.quoting import mark
from tests import factories
from tests.contextopt.api.conftest import fields_of

BEFORE = {"cart.py": "".join(f"price_{number} = {number}\n" for number in range(80))}
AFTER = {"cart.py": BEFORE["cart.py"].replace("price_7 = 7\n", "price_7 = 8\n")}
DIAGNOSIS = {"root_cause": "implementation_error", "reason": "Off by one", "suggested_action": "Count from 0"}
FAILED = {"files": AFTER, "plan": "1. Read\n2. Fix", "error": "E   assert 7 == 8", "diagnosis": DIAGNOSIS}


@pytest.fixture
def task(team) -> Task:
    return factories.make_task(team, files=BEFORE)


@pytest.fixture
def attempts(task) -> str:
    return f"/tasks/{task.pk}/attempts"


def test_a_failing_task_and_its_two_attempts(api):
    created = api.post("/tasks", {"description": "Fix the prices", "external_id": "T-1", "files": BEFORE})
    assert created.status_code == 201
    task = created.json()
    assert created["Location"] == f"/api/v1/tasks/{task['id']}"
    assert (task["state"], task["attempts"], task["created_by"]) == ("open", 0, "key:admin-key")
    first = api.post(f"/tasks/{task['id']}/attempts", FAILED)
    assert first["Location"] == f"/api/v1/tasks/{task['id']}/attempts/1"
    answer = first.json()
    assert (answer["action"], answer["number"], answer["state"]) == ("retry", 1, "ready")
    context = answer["retry_context"]
    assert context["plan_summary"] == "Read\nFix"
    assert [file["path"] for file in context["changed_files"]] == ["cart.py"]
    assert "+price_7 = 8" in context["changed_files"][0]["diff"]
    assert "[RETRY 1] Diagnosis: implementation_error — Off by one. Suggestion: Count" in answer["task"]
    assert answer["saved_tokens"] == answer["full_context_tokens"] - answer["delta_tokens"] > 0
    assert answer["delta_tokens"] == context["estimated_tokens"]
    second = api.post(f"/tasks/{task['id']}/attempts", {**FAILED, "error": "again"}).json()
    assert (second["number"], second["retry_context"]["changed_files"]) == (2, [])
    read = api.get(f"/tasks/{task['id']}").json()
    assert read["attempts"] == 2
    assert read["saved_tokens"] == answer["saved_tokens"] + second["saved_tokens"]
    assert api.get(f"/assemblies/{answer['assembly_id']}/verification").json()["ok"]


def test_what_was_not_sent_is_in_no_sum(api, attempts):
    sent = api.post(attempts, FAILED).json()
    wait = api.post(attempts, {**FAILED, "diagnosis": {"root_cause": "environment_error"}}).json()
    stop = api.post(attempts, {**FAILED, "diagnosis": {"root_cause": "impossible_task"}}).json()
    for answer in (wait, stop, *api.get(attempts).json()["items"][:2]):
        assert (answer["saved_tokens"], answer["saved_percent"]) == (None, None)
    read = api.get(attempts.removesuffix("/attempts")).json()
    assert (read["attempts"], read["saved_tokens"]) == (3, sent["saved_tokens"])
    assert read["full_context_tokens"] == sent["full_context_tokens"]
    row = api.get(f"/assemblies/{wait['assembly_id']}").json()
    assert (row["tokens_before"], row["tokens_saved"], row["not_counted"]) == (None, None, "nothing was sent")
    assert api.get(f"/assemblies/{wait['assembly_id']}/verification").json()["ok"]


def test_attempts_are_listed_and_read(api, attempts):
    for _ in range(3):
        api.post(attempts, FAILED)
    api.post(attempts, {**FAILED, "receiver": "reviewer"})
    items = api.get(attempts).json()["items"]
    assert [item["number"] for item in items] == [4, 3, 2, 1]
    assert [item["number"] for item in api.get(attempts, receiver="reviewer").json()["items"]] == [4]
    page = api.get(attempts, limit=2).json()
    rest = api.get(attempts, limit=2, cursor=page["next_cursor"]).json()
    assert page["items"] + rest["items"] == items
    detail = api.get(f"{attempts}/1").json()
    assert detail["plan"] == FAILED["plan"]
    assert detail["retry_context"]["attempt_number"] == 1
    assert detail.items() >= items[-1].items()


def test_tasks_are_listed_by_filter(api, team, task):
    api.post("/tasks", {"description": "Other", "external_id": "T-1", "repository": "shop"})
    assert api.get("/tasks").json()["items"][0]["description"] == "Other"
    for name, value in (("external_id", "T-1"), ("repository", "shop")):
        assert len(api.get("/tasks", **{name: value}).json()["items"]) == 1
    api.post(f"/tasks/{task.pk}/attempts", {**FAILED, "diagnosis": {"root_cause": "impossible_task"}})
    assert [item["id"] for item in api.get("/tasks", state="impossible").json()["items"]] == [task.pk]


@pytest.mark.parametrize("count", [2, 20])
def test_lists_take_the_same_statements_whatever_their_size(api, team, count, django_assert_num_queries):
    api.get("/me")
    for _ in range(count):
        task = factories.make_task(team)
    for _ in range(count):
        factories.make_attempt(task)
    with django_assert_num_queries(2):  # the key, the tasks
        api.get("/tasks")
    with django_assert_num_queries(3):  # the key, the task, the attempts
        api.get(f"/tasks/{task.pk}/attempts")
    with django_assert_num_queries(4):  # the key, the task, the sums, the compressions
        api.get(f"/tasks/{task.pk}")


def test_an_impossible_task(api, attempts):
    answer = api.post(attempts, {**FAILED, "diagnosis": {"root_cause": "impossible_task"}}).json()
    assert (answer["action"], answer["error"]) == ("stop", "The task is impossible.")
    assert answer["text"] == ""
    refused = api.post(attempts, FAILED)
    assert refused.status_code == 409
    assert "impossible" in refused.json()["detail"]


def test_missing_context_gives_everything_back(api, attempts):
    context = {"tree": "cart.py\n", "files": {"cart.py": AFTER["cart.py"]}}
    body = {**FAILED, "diagnosis": {"root_cause": "missing_context"}, "context": context}
    answer = api.post(attempts, body).json()
    assert answer["action"] == "refetch"
    assert answer["full_context"]["tree"] == "cart.py\n"
    # The text has marks, which are no part of the full context.
    assert answer["saved_tokens"] == answer["full_context_tokens"] - answer["delta_tokens"] < 0
    assert mark(AFTER["cart.py"]) in answer["text"]


def test_an_environment_error_is_scheduled(api, attempts, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks() as jobs:
        answer = api.post(attempts, {**FAILED, "diagnosis": {"root_cause": "environment_error"}}).json()
    assert (answer["action"], answer["state"], answer["wait_seconds"]) == ("wait", "waiting", 30)
    assert answer["delta_tokens"] == 0
    assert len(jobs) == 1


def test_an_unexpected_number_is_a_conflict(api, attempts):
    assert api.post(attempts, {**FAILED, "attempt": 2}).status_code == 409
    assert api.post(attempts, {**FAILED, "attempt": 1}).status_code == 201


def test_a_taken_external_id_is_a_conflict(api):
    assert api.post("/tasks", {"description": "x", "external_id": "T"}).status_code == 201
    assert api.post("/tasks", {"description": "y", "external_id": "T"}).status_code == 409


def test_binary_files_are_told_of(api, attempts):
    answer = api.post(attempts, {**FAILED, "files": {**AFTER, "logo.png": "\x89PNG\x00\x00"}}).json()
    kinds = {file["path"]: file["kind"] for file in answer["retry_context"]["changed_files"]}
    assert kinds == {"cart.py": "changed", "logo.png": "binary"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"files": None}, "files"),
        ({"files": ["cart.py"]}, "files"),
        ({"files": {"a.py": 5}}, "files"),
        ({"files": {"": "x"}}, "files"),
        ({"files": {"a\x00": "x"}}, "files"),
        ({"files": {"a" * 501: "x"}}, "files"),
        ({"files": {"a": "x" * 1_000_001}}, "files"),
        ({"files": {f"f{number}": "" for number in range(2_001)}}, "files"),
        ({"before": {"": "x"}}, "before"),
        ({"plan": 5}, "plan"),
        ({"plan": [{"name": "x"}]}, "plan.0.title"),
        ({"plan": "\x00"}, "plan"),
        ({"error": "\x00"}, "error"),
        ({"error": "x" * 2_000_001}, "error"),
        ({"diagnosis": None}, "diagnosis"),
        ({"diagnosis": {}}, "diagnosis.root_cause"),
        ({"diagnosis": {"root_cause": " "}}, "diagnosis.root_cause"),
        ({"diagnosis": {"root_cause": "x" * 65}}, "diagnosis.root_cause"),
        ({"diagnosis": {"root_cause": "\u202e"}}, "diagnosis.root_cause"),
        ({"diagnosis": {"root_cause": "x", "reason": "x" * 1_001}}, "diagnosis.reason"),
        ({"diagnosis": {"root_cause": "x", "mood": "bad"}}, "diagnosis.mood"),
        ({"receiver": ""}, "receiver"),
        ({"receiver": "x" * 65}, "receiver"),
        ({"receiver": "\x00"}, "receiver"),
        ({"attempt": 0}, "attempt"),
        ({"attempt": 2**31}, "attempt"),
        ({"context": {"files": [{"path": "a", "content": "x"}] * 2}}, "context.files.1.path"),
        ({"counter": "fingers"}, "counter"),
        ({"encoding": "klingon"}, "encoding"),
        ({"answer": 42}, "answer"),
        ({"error_tokens": 49}, "error_tokens"),
        ({"error_tokens": 20_001}, "error_tokens"),
        ({"error_tokens": True}, "error_tokens"),
        ({"diff_lines": 0}, "diff_lines"),
        ({"diff_lines": 100_001}, "diff_lines"),
        ({"diff_characters": 99}, "diff_characters"),
        ({"diff_characters": 1_000_001}, "diff_characters"),
        ({"uncut": True, "diff_lines": 5}, "uncut"),
        ({"uncut": True, "diff_characters": 500}, "uncut"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_the_field_is_named(api, attempts, change, field):
    response = api.post(attempts, {**FAILED, **change})
    assert response.status_code == 422, response.content
    assert fields_of(response) == {field}
    assert not Attempt.objects.exists()
    assert ReceiverFile.objects.count() == 1


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({}, "description"),
        ({"description": " "}, "description"),
        ({"description": "x" * 100_001}, "description"),
        ({"description": "x", "external_id": "x" * 201}, "external_id"),
        ({"description": "x", "repository": "\x00"}, "repository"),
        ({"description": "x", "files": {"a.py": 5}}, "files"),
        ({"description": "x", "state": "completed"}, "state"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_refused_task_is_not_made(api, data, field):
    response = api.post("/tasks", data)
    assert response.status_code == 422, response.content
    assert fields_of(response) == {field}
    assert not Task.objects.exists()


@pytest.mark.parametrize("path", ["/tasks/9999999", "/tasks/9999999/attempts", "/tasks/{task}/attempts/9"])
def test_missing(api, task, path):
    assert api.get(path.format(task=task.pk)).status_code == 404


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/tasks/0", "task_id"),
        ("/tasks/99999999999999999999", "task_id"),
        ("/tasks?state=done", "state"),
        ("/tasks?repository=%00", "repository"),
        ("/tasks?cursor=x", "cursor"),
        ("/tasks/{task}/attempts/0", "number"),
        ("/tasks/{task}/attempts?receiver=%00", "receiver"),
    ],
)
def test_address_and_query_are_checked(api, task, path, field):
    response = api.client.get(f"/api/v1{path.format(task=task.pk)}")
    assert response.status_code == 422
    assert fields_of(response) == {field}


def test_a_retry_without_a_task(api):
    data = {
        "task": "Fix the cart",
        "plan": "- round",
        "error": "E   assert 1 == 2",
        "before": {"a.py": "".join(f"line {n}\n" for n in range(200))},
        "after": {"a.py": "".join(f"line {n}\n" for n in range(200)) + "new\n"},
        "diagnosis": {"root_cause": "implementation_error", "reason": "off by one"},
        "attempt": 2,
    }
    answer = api.post("/retry-delta", data).json()
    assert answer["retry_context"]["attempt_number"] == 2
    assert "+new" in answer["text"]
    assert answer["saved_tokens"] == answer["full_context_tokens"] - answer["delta_tokens"] > 0
    assert Assembly.objects.get(pk=answer["assembly_id"]).kind == "retry"
    assert fields_of(api.post("/retry-delta", {**data, "attempt": 0})) == {"attempt"}


def test_a_retry_beside_a_prompt_saves_nothing(api):
    data = {
        "task": "Fix the cart",
        "before": {"a.py": "old\n" * 99},
        "after": {"a.py": "old\n" * 98},
        "diagnosis": {"root_cause": "implementation_error"},
        "added": True,
    }
    answer = api.post("/retry-delta", data).json()
    assert answer["text"]
    assert (answer["saved_tokens"], answer["saved_percent"]) == (None, None)
    logged = Assembly.objects.get(pk=answer["assembly_id"])
    assert (logged.tokens_saved, logged.not_counted) == (None, "nothing to compare with")


LONG = "".join(f"line {number}\n" for number in range(400))
REWRITTEN = "".join(f"line {number}{' and more' * (number % 9 == 0)}\n" for number in range(400)) + "the end"


def retry(api, **asked):
    data = {
        "task": "Fix", "error": "\n".join(f"a{n}.py:{n}: error: bad {n}" for n in range(300)),
        "before": {"a.py": LONG, "gone.py": "x\n"}, "after": {"a.py": REWRITTEN, "new.py": LONG},
        "diagnosis": DIAGNOSIS, "context": {"tree": "src/\n" * 9_000},
    }  # fmt: skip
    return api.post("/retry-delta", {**data, **asked}).json()["retry_context"]


def test_the_limits_of_a_retry(api):
    short, long = retry(api, error_tokens=60)["latest_error"], retry(api)["latest_error"]
    assert len(short) < len(long) / 4
    lines = retry(api, diff_lines=3)["changed_files"][0]
    assert lines["diff"].endswith("more changed lines left out]")
    assert lines["diff"].count("\n-") + lines["diff"].count("\n+") == 3
    wide = retry(api, diff_lines=1_000, diff_characters=3_000)["changed_files"][0]
    assert 2_000 < len(wide["diff"]) <= 3_000


def test_an_uncut_retry_applies(api):
    changed, gone, new = retry(api, uncut=True)["changed_files"]
    assert not any(file["is_truncated"] for file in (changed, gone, new))
    assert apply_diff(LONG, changed["diff"]) == REWRITTEN
    assert (gone["kind"], new["diff"]) == ("deleted", f"[NEW FILE]\n{LONG}")


def test_git_applies_an_uncut_diff(api, tmp_path):
    [changed, *_] = retry(api, uncut=True)["changed_files"]
    (tmp_path / "a.py").write_text(LONG)
    patch = f"--- a/a.py\n+++ b/a.py\n{changed['diff']}"
    git = ["git", "-C", str(tmp_path), "apply", "-"]
    subprocess.run(git, input=patch.encode(), check=True)
    assert (tmp_path / "a.py").read_text() == REWRITTEN
