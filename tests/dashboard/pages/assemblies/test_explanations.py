"""The Inspector's box that explains a record, and the links to it from the record's page."""

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client

from contextopt.people.models import Team
from contextopt.spaces.models import Record, Space
from tests.dashboard.conftest import html_of, squeezed
from tests.factories import NOW, make_assembly, make_record, make_space
from tests.recomputed import make_searchable


@pytest.fixture
def made(space: Space) -> int:
    for number in range(12):
        make_record(
            space, title=f"Note {number:02}", date=NOW - timedelta(hours=number), source="wiki",
            external_id=f"n-{number}",
        )  # fmt: skip
    make_record(space, title="Old lock", date=NOW - timedelta(days=90))
    Record.objects.update(created_at=NOW)
    make_searchable(space)
    result = make_assembly(space, as_of=NOW, max_records=5)
    assert result.id is not None
    return result.id


def explain(partial: Callable[..., str], made: int, asked: str) -> str:
    return partial(f"/assemblies/{made}/?explain={asked}", "explain")


def test_by_title_id_and_external_id(partial: Callable[..., str], made: int) -> None:
    record = Record.objects.get(title="Note 08")
    for asked in ("note 08", "wiki:n-8", "n-8", str(record.pk)):
        html = explain(partial, made, asked)
        assert "Ranked 9 of 12. The record limit was reached first: 5 records were kept." in html
        assert html.count('class="passed"') == 5
        assert '<li class="failed"><span class="mark" aria-hidden="true">✗</span>' in squeezed(html)
        assert "recency" in html


def test_a_record_that_entered_passed_everything(partial: Callable[..., str], made: int) -> None:
    html = explain(partial, made, "Note 00")
    assert "Ranked 1 of 12. It was kept, with" in html
    assert 'class="failed"' not in html
    assert "1 of 12" in html


def test_a_record_outside_the_window_is_found_by_search(partial: Callable[..., str], made: int) -> None:
    html = explain(partial, made, "lock")
    assert "The window is 14 days." in html
    assert html.count('class="passed"') == 2


def test_words_that_no_record_has_get_the_closest(partial: Callable[..., str], made: int) -> None:
    html = explain(partial, made, "an old note")
    assert "No record has this ID or title. Closest:" in html
    assert "Several records match" not in html
    assert '<p class="answer">' not in html


def test_several_matches_are_offered(partial: Callable[..., str], made: int) -> None:
    html = explain(partial, made, "note")
    assert "Several records match. Choose one:" in html
    assert html.count("?explain=") == 2 * 5


def test_the_choice_of_rows_and_the_record_stay_together(owner_client: Client, made: int) -> None:
    html = html_of(owner_client, f"/assemblies/{made}/?show=kept&explain=note")
    assert 'href="?show=dropped&amp;explain=note"' in html
    assert re.search(r'href="\?show=kept&amp;explain=\d+#explain"', html)
    assert '<input type="hidden" name="show" value="kept" form="explain-form">' in html


@pytest.mark.parametrize("asked", ["zzz", "999999", "%00", "x" * 900])
def test_no_match(partial: Callable[..., str], made: int, asked: str) -> None:
    assert "No record of this space has this ID" in explain(partial, made, asked)


def test_the_page_without_htmx(owner_client: Client, made: int) -> None:
    html = owner_client.get(f"/assemblies/{made}/?explain=wiki:n-8").content.decode()
    assert "Ranked 9 of 12." in html
    assert "What if" in html


def test_the_page_of_a_record_links_to_its_explanations(owner_client: Client, made: int) -> None:
    record = Record.objects.get(title="Note 08")
    html = owner_client.get(f"/spaces/support/records/{record.pk}/").content.decode()
    assert f'href="/assemblies/{made}/?explain={record.pk}#explain"' in html


def test_another_teams_record_is_not_there(
    outsider_client: Client, partial: Callable[..., str], made: int, other_team: Team
) -> None:
    hidden = make_record(make_space(other_team), title="Hidden")
    assert "No record of this space" in explain(partial, made, str(hidden.pk))
    assert outsider_client.get(f"/assemblies/{made}/?explain=1").status_code == 404
