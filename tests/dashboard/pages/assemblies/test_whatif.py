"""The page What if: the original beside the replay, and a draft from it."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.people.models import AuditEvent
from contextopt.spaces.configs import ContextConfig, activate_config, publish_settings
from contextopt.spaces.models import Record, Space
from dashboard.kit.formats import money
from dashboard.pages.assemblies.comparison import align
from tests.dashboard.conftest import html_of, squeezed
from tests.factories import NOW, make_assembly, make_filtering, make_record
from tests.recomputed import make_searchable

FRAME = 4


@pytest.fixture
def made(space: Space) -> int:
    for number in range(30):
        make_record(space, title=f"Note {number:02}", date=NOW - timedelta(days=number % 15, hours=number))
    Record.objects.update(created_at=NOW)
    result = make_assembly(space, as_of=NOW, max_records=10)
    assert result.id is not None
    return result.id


def url_of(made: int, query: str = "") -> str:
    return f"/assemblies/{made}/what-if/?{query}"


def test_unchanged_it_is_the_same(owner_client: Client, made: int) -> None:
    html = html_of(owner_client, url_of(made))
    assert "the same, byte for byte" in html
    assert "Both contexts contain the same records." in html
    assert "Save as draft config" not in html
    assert 'name="max_records" value="10"' in html
    assert "semantic_weight" not in html


def test_a_budget_without_room_names_cause_and_remedy(owner_client: Client, space: Space) -> None:
    make_record(space)
    made = make_assembly(space, system_tokens=0, history_tokens=1_312)
    html = html_of(owner_client, url_of(made.id or 0, "context_tokens=30"))
    assert "the history is 312 tokens over its share of 1,000" in html
    assert "Raise the context budget to 400 tokens." in html


def test_both_sides_show_placement_and_cost(owner_client: Client, space: Space, made: int) -> None:
    request = {"as_of": NOW, "conversation": "c-1", "system_tokens": 2_000, "model": "claude-sonnet-4-5"}
    make_assembly(space, placement="system", max_records=10, **request)
    second = make_assembly(space, placement="system", max_records=10, history_tokens=100, **request)
    row = Assembly.objects.get(pk=second.id)
    html = squeezed(html_of(owner_client, url_of(row.pk, "max_records=4")))
    assert "<dt>Placement</dt><dd>System prompt" in html
    # The last prompt under the same settings shares the smaller context, so it is read from the cache too.
    again = re.search(r"<dt>Prompt, cached</dt><dd>([\d,]+), ([\d,]+) → ([\d,]+), ([\d,]+)</dd>", html)
    assert again is not None
    was, was_cached, now, now_cached = (int(number.replace(",", "")) for number in again.groups())
    assert (was, was_cached) == (row.prompt_tokens, row.cached_tokens)
    assert was > now
    assert was - was_cached == now - now_cached == 100
    # Tokens are those at most; money takes the mean.
    dollars = (
        row.mean_share * (0.3 * was_cached + 3.75 * 100) / 1e6,
        row.mean_share * (0.3 * now_cached + 3.75 * 100) / 1e6,
    )
    assert row.mean_share < 1
    assert f"<dd>{money(dollars[0])} → {money(dollars[1])}</dd>" in html
    assert "the prompt's conversation is not known" not in html
    assert "<dt>Input cost" not in html_of(owner_client, url_of(made))


def test_another_setting_shows_what_enters_and_leaves(owner_client: Client, made: int) -> None:
    html = html_of(owner_client, url_of(made, "max_records=4"))
    assert "<del>10</del> <ins>4</ins>" in html
    assert "10 → 4" in html
    assert "0 in, 6 out" in html
    assert html.count('<span class="tag drop">out</span>') == 6
    assert "over the record limit" in html
    assert html.count('class="gone"') == 6
    assert "from the logged candidates" in html


def test_a_wider_window_looks_records_up(owner_client: Client, made: int) -> None:
    html = html_of(owner_client, url_of(made, "window_days=all&max_records=30"))
    assert "reconstructed" in html
    assert '<span class="tag kept">in</span>' in html
    assert "was not considered" in html


def test_the_partial(partial: Callable[..., str], made: int) -> None:
    html = partial(url_of(made, "max_records=4"), "outcome")
    assert "0 in, 6 out" in html
    assert 'name="window_days"' not in html


def test_a_question_has_its_own_settings(owner_client: Client, space: Space, made: int) -> None:
    make_searchable(space)
    asked = make_assembly(space, query="note 12", as_of=NOW).id
    assert asked is not None
    html = html_of(owner_client, url_of(asked, "question_max_records=3&question_record_tokens="))
    assert "semantic_weight" in html
    assert "<del>all</del> <ins>3</ins>" in html
    assert "<del>120</del> <ins>all</ins>" in html
    assert "note 12" in html


def test_a_wrong_setting_is_explained(owner_client: Client, made: int) -> None:
    html = html_of(owner_client, url_of(made, "max_records=0"))
    assert "Ensure this value is greater than or equal to 1." in html
    assert "Correct the settings" in html


def test_a_version_to_start_from(owner_client: Client, space: Space, made: int) -> None:
    later = publish_settings(space=space, created_by="test", context_tokens=150)
    html = html_of(owner_client, url_of(made, f"config={later.version}"))
    assert 'name="context_tokens" value="150"' in html
    assert "Save as draft config" not in html
    assert owner_client.get(url_of(made, "config=99")).status_code == 404
    for text in ("x", "0", "9" * 12):
        assert "the same, byte for byte" in html_of(owner_client, url_of(made, f"config={text}"))


def test_without_what_was_given_it_says_why(owner_client: Client, made: int) -> None:
    AssemblyPayload.objects.update(givens=None)
    html = html_of(owner_client, url_of(made, "max_records=4"))
    assert "This context cannot be replayed" in html
    assert "It was logged before" in html


def test_a_draft_changes_nothing_until_it_is_activated(
    editor_client: Client, space: Space, made: int
) -> None:
    response = editor_client.post(f"/assemblies/{made}/what-if/save", {"max_records": "4"})
    draft = ContextConfig.objects.get(space=space, is_draft=True)
    assert response.headers["Location"] == f"/spaces/support/settings/#version-{draft.version}"
    assert (draft.settings.max_records, draft.settings.window_days, draft.is_active) == (4, 14, False)
    assert draft.note == f"Tried on assembly {made}, based on v1."
    assert space.configs.active().get().version == 1
    assert AuditEvent.objects.filter(action="config.drafted").count() == 1
    assert '<span class="tag">draft</span>' in editor_client.get("/spaces/support/settings/").content.decode()
    activate_config(space=space, version=draft.version)
    assert space.configs.active().get().is_draft is False


def test_what_was_tried_is_published(editor_client: Client, space: Space, made: int) -> None:
    editor_client.post(f"/assemblies/{made}/what-if/save", {"max_records": "4", "action": "publish"})
    active = space.configs.active().get()
    assert (active.version, active.is_draft, active.settings.max_records) == (2, False, 4)
    assert active.note == f"Tried on assembly {made}, based on v1."
    assert AuditEvent.objects.filter(action="config.published").count() == 1


def test_settings_that_cannot_be_published_say_why(editor_client: Client, space: Space, made: int) -> None:
    changes = {"total_tokens": "2000", "action": "publish"}
    html = editor_client.post(f"/assemblies/{made}/what-if/save", changes, follow=True).content.decode()
    assert "Not published: total_tokens: must be more than 2,800" in html
    assert space.configs.count() == 1


def test_every_setting_of_its_stage_can_be_tried(owner_client: Client, space: Space, made: int) -> None:
    html = html_of(owner_client, url_of(made, "total_tokens=6000&encoding=heuristic"))
    assert "Total tokens: <del>–</del><ins>6,000</ins>" in squeezed(html)
    assert 'name="response_tokens" value="1000"' in html
    made = make_assembly(space, stage=2).id or 0
    assert 'name="context_tokens"' in html_of(owner_client, url_of(made))


def test_nothing_changed_saves_no_draft(editor_client: Client, made: int) -> None:
    editor_client.post(f"/assemblies/{made}/what-if/save", {})
    editor_client.post(f"/assemblies/{made}/what-if/save", {"max_records": "10"})
    editor_client.post(f"/assemblies/{made}/what-if/save", {"max_records": "0"})
    assert not ContextConfig.objects.filter(is_draft=True).exists()


def test_only_contexts_of_spaces(owner_client: Client, space: Space) -> None:
    make_filtering(space.team)
    assert owner_client.get(url_of(Assembly.objects.get().pk)).status_code == 404
    assert owner_client.get(url_of(999_999)).status_code == 404


def test_a_text_cannot_become_html(owner_client: Client, space: Space) -> None:
    make_record(space, title="<script>alert(1)</script>")
    result = make_assembly(space)
    assert result.id is not None
    html = html_of(owner_client, url_of(result.id, "context_tokens=10"))
    assert "<script>alert" not in html
    assert "&lt;script&gt;" in html


@pytest.mark.parametrize("count", [2, 20])
def test_the_number_of_queries(owner_client: Client, space: Space, count: int) -> None:
    for number in range(count):
        make_record(space, title=f"Note {number}")
    made = make_assembly(space).id
    owner_client.get("/assemblies/")
    with CaptureQueriesContext(connection) as queries:
        owner_client.get(url_of(made or 0, "max_records=1"))
    # The frame, the assembly, the given versions, the titles, and the versions to start from.
    assert len(queries) == FRAME + 4


def test_equal_lines_are_opposite_and_long_runs_folded() -> None:
    same = "".join(f"{number}\n" for number in range(20))
    lines = align(f"a\n{same}", f"{same}b\n")
    assert [line.state for line in lines] == ["gone", "kept", "kept", "note", "kept", "kept", "added"]
    assert lines[3].folded == 16
    assert [(line.before, line.after) for line in (lines[0], lines[-1])] == [("a", None), (None, "b")]
