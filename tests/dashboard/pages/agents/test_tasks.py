import re
from collections.abc import Callable

import pytest
from django.test import Client

from contextopt.agents.handoffs.compression import WrittenBrief, settle_brief
from contextopt.agents.handoffs.models import Finding, HandoffSettings, PhaseCompression
from contextopt.agents.models import Task
from contextopt.people.models import Team
from dashboard.kit.responses import PAGE_ROWS
from dashboard.pages.agents.charts import HandoffBar, handoff_figure
from tests import factories
from tests.dashboard.conftest import HTMX, html_of, squeezed
from tests.queries import count_at_2_and_20

URL = "/tasks/"
FINDING = {
    "category": "risks",
    "content": '{"description": "Floats lose <cents>", "location": "shop/cart.py"}',
    "confidence": "0.8",
    "tags": "money, money",
}


def numbers(client: Client, query: str = "") -> list[int]:
    """Return the listed task ids in order."""
    return [int(found) for found in re.findall(r'href="/tasks/(\d+)/"', html_of(client, f"{URL}?{query}"))]


@pytest.fixture
def task(team: Team) -> Task:
    return factories.make_task(team, external_id="CART-17")


@pytest.fixture
def board(task: Task) -> str:
    return f"{URL}{task.pk}/findings/"


@pytest.fixture
def place(task: Task) -> str:
    return f"{URL}{task.pk}/"


def test_a_board_says_where_the_task_ended(owner_client: Client, task: Task, board: str) -> None:
    html = html_of(owner_client, board)
    assert 'aria-current="step"' in html
    assert squeezed(html).count(">not started<") == 2
    Task.objects.filter(pk=task.pk).update(state="failed")
    html = squeezed(html_of(owner_client, board))
    assert 'aria-current="step"' not in html
    assert (html.count(">ended here<"), html.count(">not reached<")) == (1, 2)


# The list


def test_an_empty_list_says_how_to_begin(owner_client: Client, team: Team) -> None:
    html = html_of(owner_client, URL)
    assert "No tasks yet" in html
    assert "manage.py add_finding" in html


def test_tasks_with_their_phase_and_saving(owner_client: Client, task: Task) -> None:
    for _ in range(3):
        factories.make_finding(task)
    factories.make_advance(task)
    factories.make_finding(task, decision="open")
    compression = PhaseCompression.objects.get()
    html = html_of(owner_client, URL)
    assert '<td>design</td><td class="n hide-small">4</td><td class="n hide-small">1</td>' in squeezed(html)
    assert f"+{compression.saved_tokens:,}" in html


def test_filters(owner_client: Client, task: Task) -> None:
    other = factories.make_task(task.team, repository="shop")
    factories.make_finding(other)
    factories.make_advance(other)
    assert numbers(owner_client, "phase=design") == [other.pk]
    assert numbers(owner_client, "repository=shop") == [other.pk]
    assert numbers(owner_client, "find=CART-17") == [task.pk]
    assert numbers(owner_client, f"find={task.pk}") == [task.pk]
    assert numbers(owner_client) == [other.pk, task.pk]


@pytest.mark.parametrize("query", ["phase=x", "repository=" + "x" * 201, "find=%00"])
def test_filters_that_cannot_be_read_say_so(query: str, owner_client: Client, task: Task) -> None:
    assert 'role="alert"' in html_of(owner_client, f"{URL}?{query}")
    assert numbers(owner_client, query) == []


def test_tasks_come_in_pages(owner_client: Client, team: Team) -> None:
    made = [factories.make_task(team).pk for _ in range(PAGE_ROWS + 3)]
    cursor = html_of(owner_client, URL).split("before=")[1].split('"')[0]
    assert sorted(numbers(owner_client) + numbers(owner_client, f"before={cursor}")) == made


def test_the_list_is_a_partial(partial: Callable[..., str], task: Task) -> None:
    assert "id_phase" not in partial(URL, "tasks")


def test_as_many_queries_for_twenty_tasks_as_for_two(owner_client: Client, team: Team) -> None:
    def hand_on() -> None:
        task = factories.make_task(team)
        factories.make_finding(task)
        factories.make_advance(task)

    # the frame's four, the page, its findings, its hand-offs
    assert count_at_2_and_20(lambda: html_of(owner_client, URL), hand_on) == [7, 7]


def test_as_many_queries_for_twenty_findings_as_for_two(owner_client: Client, task: Task, board: str) -> None:
    counts = count_at_2_and_20(lambda: html_of(owner_client, board), lambda: factories.make_finding(task))
    # the frame's four, the task, findings, compressions, settings, the account, versions
    assert counts == [10, 10]


# Creating


def test_a_task_is_made(owner_client: Client, team: Team) -> None:
    response = owner_client.post(f"{URL}new/", {"description": "Round prices", "external_id": "T-1"})
    task = Task.objects.get()
    assert response["Location"] == f"{URL}{task.pk}/findings/"
    assert (task.description, task.created_by) == ("Round prices", "user:olga")
    again = owner_client.post(f"{URL}new/", {"description": "Round prices", "external_id": "T-1"})
    assert again.status_code == 422
    assert "already" in again.content.decode()
    assert owner_client.post(f"{URL}new/", {"description": " "}).status_code == 422


def test_a_finding_is_added(owner_client: Client, task: Task, board: str) -> None:
    assert owner_client.post(board, FINDING).status_code == 302
    finding = Finding.objects.get()
    assert finding.content == {"description": "Floats lose <cents>", "location": "shop/cart.py"}
    assert (finding.tags, finding.created_by) == (["money"], "user:olga")
    html = html_of(owner_client, board)
    assert "Floats lose &lt;cents&gt;" in html


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"content": "{"}, "Enter a JSON object"),
        ({"content": '{"x": NaN}'}, "NaN"),
        ({"confidence": "1.2"}, "less than or equal to 1"),
        ({"confidence": "nan"}, "Enter a number"),
        ({"depends_on": "F-009"}, "no finding F-009"),
        ({"depends_on": "nine"}, "such as F-001"),
        ({"category": ""}, "required"),
        ({"tags": "t" * 65}, "at most 64"),
    ],
)
def test_a_bad_finding_says_what_is_wrong_at_once_and_when_sent(
    owner_client: Client, task: Task, board: str, place: str, changes: dict[str, str], words: str
) -> None:
    data = {**FINDING, **changes}
    checked = owner_client.post(f"{place}check", data, headers={**HTMX, "HX-Target": "finding-check"})
    assert checked.status_code == 200
    assert words in checked.content.decode()
    assert "<html" not in checked.content.decode()
    sent = owner_client.post(board, data)
    assert sent.status_code == 422
    assert words in sent.content.decode()
    assert not Finding.objects.exists()


def test_a_good_finding_is_told_its_number_and_weight(
    owner_client: Client, task: Task, board: str, place: str
) -> None:
    factories.make_finding(task)
    html = owner_client.post(f"{place}check", FINDING, headers=HTMX).content.decode()
    assert "Valid. This will be F-002 with" in html
    assert Finding.objects.count() == 1


# The board


def test_before_the_hand_off(owner_client: Client, task: Task, board: str) -> None:
    html = html_of(owner_client, board)
    assert "No findings yet" in html
    assert "Advance to" not in html
    assert "chart-data" not in html
    factories.make_finding(task)
    html = html_of(owner_client, board)
    assert "Advance to design" in html
    assert "starts with at most 36,800 tokens" in html


def test_what_was_handed_on_and_what_became_of_each(
    owner_client: Client, task: Task, board: str, place: str
) -> None:
    factories.make_finding(task)
    factories.make_finding(task, tags=["critical"], content={"table": "carts"})
    factories.make_finding(task, confidence=0.1, content={"description": "Maybe pigeons"})
    assert owner_client.post(f"{place}advance", {"to": "design"}).status_code == 302
    task.refresh_from_db()
    assert task.phase == "design"
    html = html_of(owner_client, board)
    assert "tagged critical" in html
    assert "speculation" in html
    assert '<span class="tag kept">in the brief</span>' in html
    compression = PhaseCompression.objects.get()
    assert f"{35_000 + compression.tokens_before:,}" in html
    assert "shop/cart.py" in html.split('id="brief-analysis"')[1].split("</pre>")[0]
    assert f"/assemblies/{compression.assembly_id}/" in html
    assert 'id="chart-data"' in html


def test_open_decisions_stop_it_until_they_are_resolved(
    owner_client: Client, task: Task, board: str, place: str
) -> None:
    factories.make_finding(task, decision="open")
    html = html_of(owner_client, board)
    assert "Open decisions" in html
    preview = html_of(owner_client, f"{place}advance")
    assert "1 open decision" in preview
    assert 'name="force" value="1" required' in preview
    assert "starts without the answer," in squeezed(preview)
    response = owner_client.post(f"{place}advance", {"to": "design"}, follow=True)
    assert "F-001" in response.content.decode()
    assert Task.objects.get().phase == "analysis"
    owner_client.post(f"{place}findings/1/resolve", {"answer": "Whole cents"})
    finding = Finding.objects.get()
    assert (finding.decision, finding.resolution) == ("resolved", "Whole cents")
    owner_client.post(f"{place}findings/1/resolve")
    assert owner_client.post(f"{place}findings/9/resolve").status_code == 404
    owner_client.post(f"{place}advance", {"to": "design"})
    assert Task.objects.get().phase == "design"


def test_before_advancing_it_shows_what_would_be_sent(owner_client: Client, task: Task, place: str) -> None:
    factories.make_finding(task, tags=["Critical"], content={"table": "carts_of_guests"})
    factories.make_finding(task, content={"description": "Prices are floats."})
    factories.make_finding(task, confidence=0.1, content={"description": "Maybe pigeons"})
    html = squeezed(html_of(owner_client, f"{place}advance"))
    assert "<title>Advance task" in html
    assert "tagged critical" in html
    assert "carts_of_guests" in html
    assert "Prices are floats." in html.partition('id="advance-brief"')[2]
    assert "Left out: F-003 (speculation)." in html
    assert 'name="force"' not in html
    assert not PhaseCompression.objects.exists()
    owner_client.post(f"{place}advance", {"to": "design"})
    assert PhaseCompression.objects.get().brief.splitlines()[0] in html


def test_the_dialog_gets_the_preview_alone(partial: Callable[..., str], task: Task, place: str) -> None:
    factories.make_finding(task)
    assert "<title>" not in partial(f"{place}advance", "advance-preview")


def test_what_cannot_advance_has_no_preview(owner_client: Client, task: Task, place: str) -> None:
    empty = owner_client.get(f"{place}advance", follow=True).content.decode()
    assert "has no findings in analysis" in empty
    factories.make_finding(task)
    Task.objects.filter(pk=task.pk).update(state="failed")
    assert owner_client.get(f"{place}advance").headers["Location"] == f"{place}findings/"


def test_viewers_have_no_preview(teammate_client: Client, task: Task, place: str) -> None:
    factories.make_finding(task)
    assert teammate_client.get(f"{place}advance").status_code == 403


def test_as_many_queries_for_a_preview_of_twenty_findings_as_of_two(
    owner_client: Client, task: Task, place: str
) -> None:
    def make() -> object:
        return factories.make_finding(task, tags=["critical"], decision="open")

    counts = count_at_2_and_20(lambda: owner_client.get(f"{place}advance"), make)
    assert counts[0] == counts[1]


def test_a_critical_finding_is_marked_at_once(owner_client: Client, task: Task, board: str) -> None:
    html = owner_client.post(board, {**FINDING, "tags": "Critical"}, follow=True).content.decode()
    assert "Added F-001, tagged critical." in html
    assert '<span class="tag demo">critical</span><span class="faint">tagged critical</span>' in squeezed(
        html
    )


def test_a_forced_hand_off_is_shown_as_such(owner_client: Client, task: Task, board: str, place: str) -> None:
    factories.make_finding(task, decision="open")
    owner_client.post(f"{place}compress", {"force": "1"})
    assert "Handed on with open decisions" in html_of(owner_client, board)


def test_too_much_is_diagnosed(owner_client: Client, task: Task, board: str, place: str) -> None:
    HandoffSettings.objects.create(team=task.team, phase="analysis", max_critical=1, brief_tokens=20)
    for number in range(2):
        factories.make_finding(task, tags=["critical"], content={"description": f"Whole {number}"})
    for number in range(6):
        words = " ".join(f"word{number}{place}" for place in range(60))
        factories.make_finding(task, content={"description": words})
    owner_client.post(f"{place}compress")
    html = html_of(owner_client, board)
    assert "Too many critical findings" in html
    assert "Information lost" in html


def test_the_next_phase_is_not_skipped(owner_client: Client, task: Task, place: str) -> None:
    factories.make_finding(task)
    owner_client.post(f"{place}advance", {"to": "implementation"})
    assert Task.objects.get().phase == "analysis"


def test_both_briefs_are_compared(owner_client: Client, task: Task, board: str) -> None:
    factories.make_finding(task)
    factories.make_advance(task)
    compression = PhaseCompression.objects.get()
    PhaseCompression.objects.filter(pk=compression.pk).update(brief_state="pending", assembly=None)
    assert 'hx-trigger="every 5s"' in html_of(owner_client, board)
    settle_brief(compression_id=compression.pk, written=WrittenBrief("A model's words.", 4, "small", ""))
    html = html_of(owner_client, board)
    assert '<span class="added">+A model&#x27;s words.\n</span>' in html
    assert "written by a model" in html
    assert "every 5s" not in html


def test_the_board_is_a_partial(partial: Callable[..., str], task: Task, board: str) -> None:
    assert "<h1>" not in partial(board, "board")


def test_a_left_out_finding_is_fetched_in_full(
    owner_client: Client, partial: Callable[..., str], task: Task, place: str
) -> None:
    factories.make_finding(task, confidence=0.1, content={"description": "Maybe <pigeons>"})
    factories.make_advance(task)
    assert "Maybe &lt;pigeons&gt;" in partial(f"{place}findings/1/", "finding-shown")
    assert "<h1>F-001</h1>" in html_of(owner_client, f"{place}findings/1/")
    for number in (2, 2**40):
        assert owner_client.get(f"{place}findings/{number}/").status_code == 404


def test_the_inspector_shows_a_hand_off(owner_client: Client, task: Task) -> None:
    factories.make_finding(task)
    factories.make_advance(task)
    assembly = PhaseCompression.objects.get().assembly_id
    html = html_of(owner_client, f"/assemblies/{assembly}/")
    assert f'href="/tasks/{task.pk}/"' in html
    assert "verified now" in html


def test_a_late_finding_is_added_and_its_phase_compressed_again(
    owner_client: Client, task: Task, board: str, place: str
) -> None:
    factories.make_finding(task)
    factories.make_advance(task)
    html = html_of(owner_client, board)
    assert "Compress again" not in html
    assert '<option value="design" selected>' in html
    assert "Versions (" not in html
    assert owner_client.post(board, {**FINDING, "phase": "implementation"}).status_code == 422
    assert owner_client.post(board, {**FINDING, "phase": "analysis"}).status_code == 302
    assert Finding.objects.get(number=2).phase == "analysis"
    html = html_of(owner_client, board)
    assert "Changed since" in html
    assert "Compress again" in html
    owner_client.post(f"{place}compress", {"phase": "analysis"})
    assert [each.version for each in PhaseCompression.objects.order_by("id")] == [1, 2]
    html = html_of(owner_client, board)
    assert "Changed since" not in html
    assert "Versions (2)" in html
    for compression in PhaseCompression.objects.all():
        assert f'href="/assemblies/{compression.assembly_id}/"' in html


def test_a_finding_is_tagged_and_linked_afterwards(owner_client: Client, task: Task, place: str) -> None:
    for _ in range(2):
        factories.make_finding(task)
    url, shown = f"{place}findings/2/change", {**HTMX, "HX-Target": "finding-shown"}
    html = owner_client.post(
        url, {"tags": "critical, money", "depends_on": "f-1"}, headers=shown
    ).content.decode()
    assert 'id="finding-shown"' in html
    assert "<html" not in html
    assert "Saved." in html
    finding = Finding.objects.get(number=2)
    assert (finding.tags, finding.dependencies) == (["critical", "money"], ["F-001"])
    assert 'value="critical, money"' in html_of(owner_client, f"{place}findings/2/")
    wrong = {"tags": "critical", "depends_on": "F-002"}
    html = owner_client.post(url, wrong, headers=shown).content.decode()
    assert "F-002 would depend on itself" in html
    assert owner_client.post(url, wrong).status_code == 422
    assert owner_client.post(url, {"tags": ""}).status_code == 302
    finding.refresh_from_db()
    assert (finding.tags, finding.dependencies) == ([], [])
    Task.objects.filter(pk=task.pk).update(state="completed")
    assert "Save tags" not in html_of(owner_client, f"{place}findings/2/")
    assert "completed" in owner_client.post(url, {"tags": "x"}, headers=shown).content.decode()
    assert owner_client.post(f"{place}findings/9/change").status_code == 404


# Roles


def test_viewers_are_offered_no_changes(teammate_client: Client, task: Task, board: str) -> None:
    factories.make_finding(task, decision="open")
    html = html_of(teammate_client, board)
    assert "Add finding" not in html
    assert "Resolve" not in html


def test_the_chart_has_a_pair_a_phase() -> None:
    bars = [HandoffBar("Analysis", 7_200, 450, 1_350), HandoffBar("Design", 300, None, None)]
    figure = handoff_figure(bars).to_plotly_json()
    assert [list(trace["y"]) for trace in figure["data"]] == [[7_200, 300], [1_350, None], [450, None]]
    assert [bar.handed_tokens for bar in bars] == [1_800, None]
