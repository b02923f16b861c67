"""`verify_savings` covers the accounts of tasks."""

import json

import pytest
from django.core.management import call_command
from django.db import connection

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from tests.contextopt.agents.timeline.journeys import read_account, travel
from tests.factories import make_filtering, make_task


def verify(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, object]:
    capsys.readouterr()
    call_command("verify_savings", "--json", *options)
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


@pytest.fixture
def team(db: None) -> Team:
    return Team.objects.ensure_default()


def test_the_accounts_of_two_tasks(team: Team, other_team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    travel(team)
    make_filtering(team, task_id=make_task(team).pk)
    make_filtering(other_team, task_id=make_task(other_team).pk)
    answer = verify(capsys, "--team", team.slug)
    assert (answer["tasks"], answer["differences"]) == (2, [])
    call_command("verify_savings")
    assert "assemblies and 3 tasks checked in 2 teams, 0 figures differ" in capsys.readouterr().out


def test_an_assembly_that_lost_its_task_is_found(team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    task = travel(team)
    full = read_account(task)
    lost = Assembly.objects.filter(task=task, kind="phase").latest("pk")
    Assembly.objects.filter(pk=lost.pk).update(task=None)
    with pytest.raises(SystemExit) as exit_info:
        verify(capsys)
    assert exit_info.value.code == 1
    differences = json.loads(capsys.readouterr().out)["differences"]
    assert {row["figure"]: (row["stored"], row["recomputed"]) for row in differences} == {
        "assemblies": (full.assemblies - 1, full.assemblies),
        "sent_tokens": (full.sent_tokens - lost.tokens_after, full.sent_tokens),
        "compared": (full.compared - 1, full.compared),
        "compared_tokens": (full.compared_tokens - lost.tokens_after, full.compared_tokens),
        "full_tokens": (full.full_tokens - (lost.tokens_before or 0), full.full_tokens),
    }
    assert {row["task"] for row in differences} == {task.pk}
    # Some assemblies alone say nothing about a task's account.
    assert verify(capsys, "--since", "2020-01-01")["differences"] == []


def test_a_figure_that_was_changed_is_found_in_both(team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    task = travel(team)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("ALTER TABLE contextopt_assembly DISABLE TRIGGER contextopt_assembly_immutable")
        Assembly.objects.filter(task=task, kind="hint").update(tokens_after=1)
    with pytest.raises(SystemExit):
        verify(capsys)
    differences = json.loads(capsys.readouterr().out)["differences"]
    assert {"assembly", "task"} == {
        name for row in differences for name in row if name in {"assembly", "task"}
    }


def test_a_deleted_task_has_no_account(team: Team, capsys: pytest.CaptureFixture[str]) -> None:
    task = make_task(team)
    make_filtering(team, task_id=task.pk)
    task.delete()
    assert verify(capsys)["differences"] == []
