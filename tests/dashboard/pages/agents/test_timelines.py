"""The page of a task: its account, its events by phase, filters, pages, and who may see it."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from contextopt.agents.models import HandoffPhase, Task
from contextopt.agents.timeline.account import read_phase_accounts
from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from dashboard.pages.agents import timelines
from dashboard.pages.agents.timelines import span_words
from memory.strategies.inputs import CompletionIn
from memory.strategies.reports import complete_task
from tests import factories
from tests.contextopt.agents.timeline.journeys import read_account, travel
from tests.dashboard.conftest import html_of, squeezed
from tests.queries import count_at_2_and_20


def timeline_of(client: Client, task: Task, query: str = "") -> str:
    return html_of(client, f"/tasks/{task.pk}/?{query}")


def kinds_in(html: str) -> list[str]:
    return re.findall(r'data-kind="(\w+)"', html)


@pytest.fixture
def task(team: Team) -> Task:
    return travel(team)


def test_the_account_and_the_events(owner_client: Client, task: Task) -> None:
    account, html = read_account(task), timeline_of(owner_client, task)
    sent = f'id="sent">{account.compared_tokens:,}<small>sent instead of {account.full_tokens:,}<'
    assert sent in squeezed(html)
    assert f"{account.saved_tokens:,} tokens saved" in html
    assert f"{account.compared} of {account.assemblies} compared" in html
    assert kinds_in(html) == [
        "hint", "context", "finding", "decision", "handoff", "context", "finding", "handoff", "attempt",
        "retry", "attempt", "retry", "completion",
    ]  # fmt: skip
    assert "2 findings added, 1 critical" in html
    assert "F-001 to F-002" in html
    assert "not compared: nothing was sent" in html
    assert "added by the hint" in html
    assert "E AssertionError: assert 7.004 == 7" in html
    assert "Completed at attempt 3" in html
    for assembly in Assembly.objects.filter(task=task):
        assert f'href="/assemblies/{assembly.pk}/"' in html
    assert 'id="phase-analysis"' in html
    assert 'id="phase-implementation"' not in html


def test_what_was_not_compared_stands_apart(owner_client: Client, task: Task) -> None:
    sent = Assembly.objects.select_related("payload").get(task=task, kind="phase", phase="planning")
    more, payload = sent.tokens_after, sent.payload
    sent.pk, sent.tokens_before, sent.created_at = None, None, task.created_at
    sent.save(force_insert=True)
    payload.assembly = sent
    payload.save(force_insert=True)
    account, html = read_account(task), timeline_of(owner_client, task)
    assert account.uncompared_tokens == more
    compared = f"{account.compared_tokens:,}<small>sent instead of {account.full_tokens:,}"
    assert f'id="sent">{compared}; {more:,} more could not be compared' in squeezed(html)
    analysis = read_phase_accounts(task)[HandoffPhase.ANALYSIS]
    words = f'{analysis.compared_tokens:,} <span class="faint"> of {analysis.full_tokens:,}'
    assert f"{words} · +{more:,} not compared" in " ".join(html.split())
    assert f"Not compared {more:,}</li>" in squeezed(html)


def test_the_account_as_text(owner_client: Client, task: Task) -> None:
    account = read_account(task)
    found = re.search(r'data-value="([^"]+)"', timeline_of(owner_client, task))
    assert found is not None
    lines = found[1].splitlines()
    assert lines[0].startswith(f"Task {task.pk}: Fix wrong rounding")
    assert lines[1] == f"Sent: {account.sent_tokens:,} tokens"
    assert f"in {account.compared} of {account.assemblies} assemblies" in lines[3]
    assert lines[4].startswith(f"Saved: {account.saved_tokens:,} tokens (")
    assert [line.split(":")[0] for line in lines[5:]] == ["Analysis", "Design"]


@pytest.mark.parametrize(
    ("show", "kinds"),
    [
        ("contexts", {"hint", "context", "handoff", "retry"}),
        ("attempts", {"attempt", "retry", "completion"}),
        ("findings", {"finding", "decision", "handoff"}),
    ],
)
def test_filters(
    owner_client: Client, partial: Callable[..., str], task: Task, show: str, kinds: set[str]
) -> None:
    html = partial(f"/tasks/{task.pk}/?show={show}", "timeline")
    assert set(kinds_in(html)) == kinds
    assert "<h1>" not in html
    assert f"{read_account(task).sent_tokens:,}" in html
    assert len(kinds_in(timeline_of(owner_client, task, "show=nonsense"))) == 13


def test_an_empty_timeline_says_how_to_begin(owner_client: Client, team: Team) -> None:
    task = factories.make_task(team)
    html = timeline_of(owner_client, task)
    assert "Nothing has happened yet" in html
    assert f'"task_id": {task.pk}' in html
    assert "Nothing was sent yet" in html
    factories.make_finding(task)
    assert "No such events" in timeline_of(owner_client, task, "show=attempts")


def test_a_task_that_failed_at_once_says_no_more(owner_client: Client, team: Team) -> None:
    task = factories.make_task(team)
    report = CompletionIn(task_id=task.pk, outcome="failed", quality_score=2)
    complete_task(team=team, data=report, actor="test")
    html = timeline_of(owner_client, task)
    assert ">Failed<" in html
    assert "failed attempt" not in html
    assert "Nothing was sent." in html


def test_an_open_task_is_live_and_a_closed_one_is_not(owner_client: Client, task: Task) -> None:
    assert "data-live" not in timeline_of(owner_client, task)
    opened = factories.make_task(task.team)
    assert 'data-live="assemblies tasks"' in timeline_of(owner_client, opened, "show=contexts")


def test_what_went_wrong_is_said(owner_client: Client, team: Team) -> None:
    task = factories.make_task(team)
    factories.make_finding(task, decision="open")
    factories.make_advance(task, force=True)
    factories.make_profile(team, "building", budget_tokens=300)
    factories.make_filtering(team, "building", task_id=task.pk)
    factories.make_attempt(task, root_cause="impossible_task")
    html = timeline_of(owner_client, task)
    assert "Impossible after 1 failed attempt<" in html
    assert "Handed on with 1 open decision<" in html
    assert "1 context trimmed to the budget" in html
    assert "Stopped, nothing sent" in html


def test_user_text_is_never_html(owner_client: Client, team: Team) -> None:
    task = factories.make_task(team, description="<b>bold</b>")
    error = "E   AssertionError: <img src=x>"
    factories.make_attempt(task, error=error, root_cause="<i>")
    html = timeline_of(owner_client, task)
    assert "&lt;b&gt;" in html
    assert "<b>bold" not in html
    assert "&lt;img" in html
    assert "<img src=x" not in html
    assert "<i>" not in html


def test_pages(owner_client: Client, team: Team) -> None:
    task = factories.make_task(team)
    for _ in range(timelines.EVENTS_SHOWN // 2 + 3):
        factories.make_attempt(task, files={}, error="")
    html = timeline_of(owner_client, task)
    assert len(kinds_in(html)) == timelines.EVENTS_SHOWN
    later = re.search(r'href="\?([^"]+)">Later events', html)
    assert later is not None
    rest = timeline_of(owner_client, task, later[1].replace("&amp;", "&"))
    assert len(kinds_in(rest)) == 6
    assert "First events" in rest
    assert kinds_in(timeline_of(owner_client, task, "after=cut")) == kinds_in(html)


def test_as_many_queries_for_twenty_events_as_for_two(owner_client: Client, team: Team) -> None:
    task = factories.make_task(team)

    def go_on() -> None:
        factories.make_attempt(task)
        factories.make_finding(task)
        factories.make_filtering(team, task_id=task.pk)

    few, many = count_at_2_and_20(lambda: timeline_of(owner_client, task), go_on)
    assert few == many


def test_the_inspector_links_to_the_task(owner_client: Client, task: Task) -> None:
    hint = Assembly.objects.get(task=task, kind="hint")
    html = owner_client.get(f"/assemblies/{hint.pk}/").content.decode()
    assert f'href="/tasks/{task.pk}/"' in html
    assert "Strategy hint" in html
    assert "Hints have no settings." in html
    assert "Full context" not in html


def test_long_tasks_fold_their_finished_phases(owner_client: Client, team: Team) -> None:
    task = factories.make_task(team)
    for _ in range(41):
        factories.make_filtering(team, task_id=task.pk)
    factories.make_finding(task)
    factories.make_advance(task)
    factories.make_filtering(team, task_id=task.pk)
    html = timeline_of(owner_client, task)
    assert '<details id="phase-analysis">' in html
    assert '<details open id="phase-design">' in html


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(seconds=20), "under a minute"),
        (timedelta(minutes=7), "7 min"),
        (timedelta(hours=2), "2 h"),
        (timedelta(days=1, hours=3, minutes=5), "1 d 3 h"),
    ],
)
def test_spans(span: timedelta, words: str) -> None:
    assert span_words(span) == words


def test_the_phases_of_a_task_last_from_entry_to_entry(owner_client: Client, task: Task) -> None:
    begun: datetime = timezone.now() - timedelta(hours=1)
    Task.objects.filter(pk=task.pk).update(created_at=begun, design_at=begun + timedelta(minutes=25))
    html = timeline_of(owner_client, task)
    assert f'{HandoffPhase.DESIGN.label} <span class="faint">35 min' in html
