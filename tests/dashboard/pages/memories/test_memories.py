"""The pages Memory and Strategies."""

import pytest
from django.test import Client

from contextopt.people.models import Team
from memory.memories.models import Memory
from memory.strategies.inputs import CompletionIn
from memory.strategies.models import StrategyUse
from memory.strategies.reports import complete_task
from memory.strategies.strategies import rate_use
from tests import factories
from tests.dashboard.conftest import html_of, seen_in
from tests.memory.factories import make_memory, make_strategy, make_use
from tests.queries import count_at_2_and_20

LIKE = "Fix wrong rounding of the prices in the shopping cart"


def test_empty_pages_say_how_to_begin(owner_client: Client, team: Team) -> None:
    assert "/api/v1/memories" in html_of(owner_client, "/memory/")
    assert "/api/v1/completions" in html_of(owner_client, "/strategies/")


def test_memories_by_filters_and_by_search(owner_client: Client, team: Team) -> None:
    make_memory(team, content="<b>Decimals</b> for prices", memory_type="decision", tags=["money"])
    make_memory(team, content="Workers hold a lock", trust_level="external", repository="queue", tags=[])
    html = html_of(owner_client, "/memory/")
    assert "&lt;b&gt;Decimals" in html
    assert "Workers hold" in html
    html = html_of(owner_client, "/memory/", find="which lock do workers hold")
    assert 0 < html.index("Workers hold") < (html.index("Decimals") if "Decimals" in html else len(html))
    for query in ({"type": "decision"}, {"tag": "money"}, {"type": "decision", "find": "decimals"}):
        html = html_of(owner_client, "/memory/", **query)
        assert "Decimals" in html
        assert "Workers hold" not in html
    assert "Workers hold" in html_of(
        owner_client, "/memory/", trust="external", repository="queue", find="lock"
    )
    assert "Clear filters" in html_of(owner_client, "/memory/", show="deleted")


@pytest.mark.parametrize("query", [{"trust": "x"}, {"tag": "\0"}, {"find": "x" * 3_000}])
def test_filters_that_cannot_be_read_say_so(owner_client: Client, team: Team, query: dict) -> None:
    assert 'role="alert"' in html_of(owner_client, "/memory/", **query)


def test_as_many_queries_for_twenty_as_for_two(owner_client: Client, team: Team) -> None:
    def learn() -> None:
        number = Memory.objects.count()
        make_strategy(team, description=f"Fix bug number {number}", plan=f"Open file{number}")

    # the frame's four, the memories
    assert count_at_2_and_20(lambda: html_of(owner_client, "/memory/"), learn) == [5, 5]
    # the frame's four, the strategies, their ratings
    assert count_at_2_and_20(lambda: html_of(owner_client, "/strategies/"), learn) == [6, 6]


def test_a_memory_is_made_read_changed_deleted_and_restored(editor_client: Client, team: Team) -> None:
    data = {
        "content": "One\r\ntwo",
        "memory_type": "general",
        "trust_level": "user",
        "tags": "a, b",
        "payload": "{}",
    }
    editor_client.post("/memory/new/", data)
    memory = Memory.objects.get()
    assert (memory.content, memory.tags, memory.access_count) == ("One\ntwo", ["a", "b"], 0)
    url = f"/memory/{memory.pk}/"
    html_of(editor_client, url)
    assert Memory.objects.get().access_count == 1
    editor_client.post(url + "edit", {**data, "content": "Three"})
    assert Memory.objects.get().content == "Three"
    assert editor_client.post(url + "edit", {**data, "content": " "}).status_code == 422
    editor_client.post(url + "delete")
    assert f'action="{url}restore"' in html_of(editor_client, "/memory/")
    assert editor_client.post(url + "edit", {**data, "content": "Four"}).status_code == 409
    editor_client.post(url + "restore")
    assert Memory.objects.get().deleted_at is None


def test_an_edit_made_meanwhile_is_not_replaced_unseen(editor_client: Client, team: Team) -> None:
    memory = make_memory(team, content="One")
    url = f"/memory/{memory.pk}/"
    seen = seen_in(html_of(editor_client, url))
    data = {"memory_type": "general", "trust_level": "user", "payload": "{}"}
    editor_client.post(url + "edit", {**data, **seen, "content": "Theirs"})
    for wrong in ({"payload": "{"}, {}):
        response = editor_client.post(url + "edit", {**data, **seen, "content": "Mine", **wrong})
        assert response.status_code == 409
    html = response.content.decode()
    assert "changed in the meantime" in html
    assert Memory.objects.get().content == "Theirs"
    editor_client.post(url + "edit", {**data, **seen_in(html), "content": "Mine"})
    assert Memory.objects.get().content == "Mine"


def test_a_strategy_shows_steps_uses_trust_and_chart(owner_client: Client, strategy: Memory) -> None:
    rate_use(use=make_use(strategy, asked="Fix <that>"), rating=1, actor="user:olga")
    assert "no similar tasks to compare with" in html_of(owner_client, f"/strategies/{strategy.pk}/")
    Memory.objects.filter(pk=strategy.pk).update(tokens_saved=-1_500, evidence_count=2)
    html = html_of(owner_client, f"/strategies/{strategy.pk}/")
    assert "<li>Round at the last step</li>" in html
    assert "Fix &lt;that&gt;" in html
    assert "−1,500" in html
    assert "2 tasks" in html
    assert 'data-chart="trust"' in html
    assert "rated 1" in html
    assert "100 %" in html_of(owner_client, "/strategies/")
    task = factories.make_task(strategy.team)
    report = CompletionIn(task_id=task.pk, outcome="failed")
    complete_task(team=strategy.team, data=report, actor="test")
    make_use(strategy, task=task)
    assert "50 %" in html_of(owner_client, "/strategies/")
    html = html_of(owner_client, f"/strategies/{strategy.pk}/")
    assert "<dt>Tasks completed</dt><dd>0 of 1</dd>" in html
    assert "<td>failed</td>" in html


def test_retire_and_reinstate(editor_client: Client, strategy: Memory) -> None:
    url = f"/strategies/{strategy.pk}/"
    editor_client.post(url + "retire", {"reason": " "})
    assert Memory.objects.get().retired_at is None
    editor_client.post(url + "retire", {"reason": "outdated"})
    assert "outdated (user:edda)" in html_of(editor_client, url)
    # The only strategy is retired, so "yet" would be wrong.
    html = html_of(editor_client, "/strategies/")
    assert "<h2>No strategies " in html
    assert "No strategies yet" not in html
    editor_client.post(url + "reinstate")
    assert Memory.objects.get().retired_at is None


def test_an_admin_purges_it_after_typing_the_word(
    owner_client: Client, editor_client: Client, team: Team
) -> None:
    memory = make_memory(team, content="Secret plan")
    address = f"/memory/{memory.pk}/"
    assert "Purge for good" not in html_of(editor_client, address)
    assert "Purge for good" in html_of(owner_client, address)
    refused = owner_client.post(f"{address}purge", {"confirm": "yes"}, follow=True).content.decode()
    assert "Type the word purge to confirm" in refused and "Secret plan" in refused
    html = owner_client.post(f"{address}purge", {"confirm": " Purge "}, follow=True).content.decode()
    assert "This memory was purged" in html
    assert "Secret" not in html and ">Restore<" not in html and "Purge for good" not in html
    again = owner_client.post(f"{address}restore", follow=True).content.decode()
    assert "Not restored. The memory&#x27;s text was erased for good." in again


def test_planning_shows_the_hint_and_counts_nothing(owner_client: Client, strategy: Memory, partial) -> None:
    html = html_of(owner_client, "/strategies/", task=LIKE, repository="shop")
    assert "[STRATEGY HINT " in html
    assert "[END STRATEGY HINT " in html
    assert not StrategyUse.objects.exists()
    assert "No similar strategy" in html_of(owner_client, "/strategies/", task=LIKE, repository="web")
    assert "Enter the task's repository" in html_of(owner_client, "/strategies/", task=LIKE)
    assert "Plan a task" not in partial("/strategies/?task=Fix", "hint")


def test_completing_says_what_was_stored_and_why_not(editor_client: Client, team: Team) -> None:
    data = {
        "description": LIKE,
        "outcome": "completed",
        "plan": "One\r\nTwo",
        "total_attempts": 1,
        "quality_score": 8,
    }
    html = editor_client.post(
        "/strategies/complete/", {**data, "decisions": "Half even\r\n\r\nTwice"}, follow=True
    ).content.decode()
    assert "One → Two" in html
    assert Memory.objects.filter(memory_type="decision").count() == 2
    assert "None given" in html
    poor = editor_client.post("/strategies/complete/", {**data, "quality_score": 5}, follow=True)
    assert "a strategy needs at least 7" in poor.content.decode()
    for wrong in ({"description": ""}, {"quality_score": 11}, {"task_id": 999}):
        response = editor_client.post("/strategies/complete/", {**data, **wrong})
        assert response.status_code == 422
        assert 'role="alert"' in response.content.decode()


def test_a_report_is_shown_at_an_address_of_its_own(
    editor_client: Client, outsider_client: Client, team: Team
) -> None:
    data = {
        "description": LIKE,
        "outcome": "completed",
        "quality_score": 8,
        "total_attempts": 1,
        "decisions": "Half even",
    }
    answers = [editor_client.post("/strategies/complete/", data) for _ in range(2)]
    first, second = (answer.headers["Location"] for answer in answers)
    assert first == second
    html = editor_client.get(second).content.decode()
    assert "Half even" in html
    assert "already recorded" in html
    for address in (
        second,
        "/strategies/complete/?completion=x",
        f"/strategies/complete/?completion={2**70}",
    ):
        assert "Half even" not in outsider_client.get(address).content.decode()


@pytest.fixture
def strategy(team: Team) -> Memory:
    return make_strategy(team)
