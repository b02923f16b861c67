from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from contextopt.agents.models import Task, TaskState
from contextopt.agents.retries import end_waits
from contextopt.people.models import Team
from dashboard.kit.charts.shapes import saving_bar
from dashboard.kit.diffs import colour_diff
from dashboard.kit.formats import signed
from dashboard.kit.responses import PAGE_ROWS
from dashboard.pages.agents.retries import ATTEMPTS_SHOWN
from tests import factories
from tests.dashboard.conftest import html_of
from tests.queries import count_at_2_and_20

URL = "/retries/"
BEFORE = "".join(f"line {number}\n" for number in range(60))


def numbers(client: Client, query: str = "") -> list[int]:
    """Return the listed task ids in order."""
    html = html_of(client, f"{URL}?{query}")
    return [
        int(part.split("/")[0])
        for part in html.split('<a class="link" data-row href="/retries/')[1:]
        if part[0].isdigit()
    ]


@pytest.fixture
def task(team: Team) -> Task:
    return factories.make_task(team, files={"cart.py": BEFORE, "old.py": "gone\n"}, external_id="CART-17")


@pytest.mark.parametrize("state", [state for state in TaskState if state != TaskState.OPEN])
def test_a_task_that_ended_offers_no_command(state: TaskState, owner_client: Client, task: Task) -> None:
    address = f"{URL}{task.pk}/"
    assert 'id="attempt-command"' in html_of(owner_client, address)
    Task.objects.filter(pk=task.pk).update(state=state)
    html = html_of(owner_client, address)
    assert "The task has ended" in html
    assert "No failed attempts yet" not in html
    assert 'id="attempt-command"' not in html


# The list


def test_an_empty_list_says_how_to_begin(owner_client: Client, team: Team) -> None:
    html = html_of(owner_client, URL)
    assert "No tasks yet" in html
    assert "/api/v1/tasks" in html
    assert "manage.py retry_delta" in html
    assert "tile-share" not in html


def test_tasks_with_their_attempts_causes_and_saving(owner_client: Client, task: Task) -> None:
    factories.make_attempt(task, files={"cart.py": BEFORE.replace("7", "8")})
    factories.make_attempt(task, files={"cart.py": BEFORE}, root_cause="bad_plan")
    factories.make_task(task.team, description="<Newer>")
    html = html_of(owner_client, URL)
    assert html.index("&lt;Newer&gt;") < html.index("Fix the rounding")
    assert "bad_plan" in html
    assert "the plan was wrong" in html
    attempts = list(task.attempts.all())
    saved = sum(attempt.saved_tokens for attempt in attempts)
    assert f">{signed(saved)}</td>" in html
    assert 'id="tile-saved"' in html


def test_waits_and_stops_are_in_no_figure(owner_client: Client, task: Task) -> None:
    factories.make_attempt(task, files={"cart.py": BEFORE.replace("7", "8")})
    saving = html_of(owner_client, URL).split('id="tile-saved"')[1].split("</article>")[0]
    for root_cause in ("environment_error", "impossible_task"):
        factories.make_attempt(task, files={"cart.py": BEFORE}, root_cause=root_cause)
    html = html_of(owner_client, URL)
    assert html.split('id="tile-saved"')[1].split("</article>")[0] == saving
    causes = html.split("Root causes, most frequent first")[1].split("</table>")[0]
    assert causes.count('<td class="n">–</td>') == 2
    page = html_of(owner_client, f"{URL}{task.pk}/")
    assert page.count("nothing was sent") == 2
    assert "100.0 %" not in page


def test_filters(owner_client: Client, task: Task) -> None:
    other = factories.make_task(task.team, repository="shop")
    factories.make_attempt(other, root_cause="impossible_task")
    assert numbers(owner_client, "state=impossible") == [other.pk]
    assert numbers(owner_client, "cause=impossible_task") == [other.pk]
    assert numbers(owner_client, "repository=shop") == [other.pk]
    assert numbers(owner_client, "find=CART-17") == [task.pk]
    assert numbers(owner_client, f"find={task.pk}") == [task.pk]
    assert numbers(owner_client, "state=open") == [task.pk]
    assert "Clear filters" in html_of(owner_client, f"{URL}?cause=bad_plan")


@pytest.mark.parametrize("query", ["state=x", "cause=%00", "repository=" + "x" * 201, "find=%00"])
def test_filters_that_cannot_be_read_say_so(query: str, owner_client: Client, task: Task) -> None:
    assert 'role="alert"' in html_of(owner_client, f"{URL}?{query}")
    assert numbers(owner_client, query) == []


@pytest.mark.parametrize("query", ["find=99999999999999999999", "find=²"])
def test_what_finds_nothing_is_no_error(query: str, owner_client: Client, task: Task) -> None:
    assert numbers(owner_client, query) == []
    assert 'role="alert"' not in html_of(owner_client, f"{URL}?{query}")


def test_a_cursor_that_was_cut_is_page_one(owner_client: Client, task: Task) -> None:
    assert numbers(owner_client, "before=x") == [task.pk]


def test_tasks_come_in_pages(owner_client: Client, team: Team) -> None:
    made = [factories.make_task(team).pk for _ in range(PAGE_ROWS + 3)]
    cursor = html_of(owner_client, URL).split("before=")[1].split('"')[0]
    assert sorted(numbers(owner_client) + numbers(owner_client, f"before={cursor}")) == made


def test_the_list_is_a_partial(partial, task: Task) -> None:
    assert "id_state" not in partial(URL, "tasks")


def test_another_teams_tasks_are_not_there(outsider_client: Client, task: Task) -> None:
    factories.make_attempt(task)
    assert numbers(outsider_client) == []
    assert "tile-share" not in html_of(outsider_client, URL)


def test_as_many_queries_for_twenty_as_for_two(owner_client: Client, team: Team) -> None:
    counts = []
    for wanted in (2, 20):
        while Task.objects.count() < wanted:
            factories.make_attempt(factories.make_task(team))
        with CaptureQueriesContext(connection) as queries:
            # the frame's four, the page, its figures, the sums, the root causes
            html_of(owner_client, URL)
        counts.append(len(queries))
        assert not any('"retry_context"' in query["sql"] for query in queries)
    assert counts == [8, 8]


# One task


def page_of(client: Client, task: Task, query: str = "") -> str:
    return html_of(client, f"{URL}{task.pk}/{query}")


def test_a_task_that_has_not_failed_says_how_to_post_an_attempt(owner_client: Client, task: Task) -> None:
    html = page_of(owner_client, task)
    assert f"/api/v1/tasks/{task.pk}/attempts" in html


def test_a_plan_is_a_list_and_an_error_without_its_last_line_break_is_not_cut(
    owner_client: Client, task: Task
) -> None:
    error, files = "E   assert 7 == 8\n", {"cart.py": BEFORE}
    factories.make_attempt(task, files=files, error=error, plan="Write a test\nRound once\n")
    html = page_of(owner_client, task)
    assert "<li>Write a test</li><li>Round once</li>" in html
    assert "cut to" not in html


def test_an_attempt_shows_delta_diagnosis_error_and_files(owner_client: Client, task: Task) -> None:
    error = "noise\n" * 400 + "E   AssertionError: <7> == 8\n"
    files = {"cart.py": BEFORE.replace("line 7\n", "line <seven>\n"), "new.py": "a = 1\n"}
    result = factories.make_attempt(task, files=files, error=error)
    html = page_of(owner_client, task)
    assert "Retry with the changes" in html
    assert "Off by one" in html
    assert "Count from 0" in html
    assert f"of {len(error.strip()):,} characters" in html
    assert "&lt;7&gt; == 8" in html
    assert '<span class="gone">-line 7\n</span>' in html
    assert '<span class="added">+line &lt;seven&gt;\n</span>' in html
    assert '<span class="added">+a = 1\n</span>' in html
    assert "[DELETED]" in html
    attempt = result.attempt
    assert f"{attempt.delta_tokens:,} of {attempt.full_tokens:,} tokens sent" in html
    assert f"/assemblies/{attempt.assembly_id}/" in html
    assert 'to <span class="mono">agent</span>' in html


def test_a_cut_delta_says_that_the_base_stays(owner_client: Client, task: Task) -> None:
    factories.make_attempt(task, files={"cart.py": BEFORE.replace("line", "row"), "old.py": "gone\n"})
    assert "cut; the next diff repeats it" in page_of(owner_client, task)


@pytest.mark.parametrize(
    ("root_cause", "words"),
    [
        ("bad_plan", "Plan again"),
        ("implementation_error", "Retry with the changes"),
        ("missing_context", "Retry with the full context"),
        ("impossible_task", "Stop: the task is impossible"),
        ("a cause of one's own", "Retry with the changes"),
    ],
)
def test_each_root_cause_says_what_is_next(
    root_cause: str, words: str, owner_client: Client, task: Task
) -> None:
    factories.make_attempt(task, root_cause=root_cause)
    assert words in page_of(owner_client, task)


def test_a_wait_counts_down_and_then_rests(owner_client: Client, task: Task) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        factories.make_attempt(task, root_cause="environment_error")
        html = page_of(owner_client, task)
        assert "30 s left" in html
        assert 'hx-trigger="every 5s"' in html
        clock.shift(timedelta(seconds=31))
        assert "wait over" in page_of(owner_client, task)
        end_waits()
        html = page_of(owner_client, task)
    assert "wait over" in html
    assert "every 5s" not in html


def test_attempts_are_in_order_and_in_pages(owner_client: Client, task: Task) -> None:
    for _ in range(ATTEMPTS_SHOWN + 3):
        factories.make_attempt(task)
    html = page_of(owner_client, task)
    shown = [int(part.split('"')[0]) for part in html.split('id="attempt-')[1:]]
    assert shown == list(range(4, ATTEMPTS_SHOWN + 4))
    assert "?until=3" in html
    assert page_of(owner_client, task, "?until=3").count('id="attempt-') == 3
    assert page_of(owner_client, task, "?until=x").count('id="attempt-') == ATTEMPTS_SHOWN


def test_the_attempts_are_a_partial(partial, task: Task) -> None:
    factories.make_attempt(task)
    assert "<h1>" not in partial(f"{URL}{task.pk}/", "attempts")


def test_a_task_asks_as_often_for_twenty_attempts_as_for_two(owner_client: Client, task: Task) -> None:
    counts = count_at_2_and_20(lambda: page_of(owner_client, task), lambda: factories.make_attempt(task))
    # the frame's four, the task, its figures, its attempts
    assert counts == [7, 7]


# In the Inspector, and charts


def test_the_inspector_shows_a_retry(owner_client: Client, task: Task) -> None:
    result = factories.make_attempt(task, files={"cart.py": BEFORE.replace("line 7\n", "")})
    html = html_of(owner_client, f"/assemblies/{result.attempt.assembly_id}/")
    assert (f"task {task.pk}</a>" in html, "retry 1</a>" in html) == (True, True)
    assert "## Latest error" in html
    assert "verified now" in html
    assert "stage 3" not in html


def test_the_inspector_shows_a_wait(owner_client: Client, task: Task) -> None:
    result = factories.make_attempt(task, root_cause="environment_error")
    assert "The agent waits" in html_of(owner_client, f"/assemblies/{result.attempt.assembly_id}/")


def test_what_costs_more_is_drawn_as_over() -> None:
    bar = saving_bar(before=100, after=125)
    assert [(part.kind, part.x, part.width) for part in bar.segments] == [
        ("context", "0", "800"),
        ("over", "800", "200"),
    ]
    assert saving_bar(before=0, after=0).segments[0].width == "0"


def test_lines_of_a_diff_have_their_sign() -> None:
    runs = colour_diff("@@ -1,2 +1,2 @@\n-a\n+b\n c\n[… 3 more changed lines left out]", "changed")
    assert [run.state for run in runs] == ["note", "gone", "added", "", "note"]
    whole = colour_diff("[FULL FILE]\n- a list\n+ of signs\n", "changed")
    assert [(run.state, run.text) for run in whole] == [
        ("note", "[FULL FILE]\n"),
        ("", " - a list\n + of signs\n"),
    ]
    assert [run.state for run in colour_diff("[NEW FILE]\n", "new")] == ["note"]
