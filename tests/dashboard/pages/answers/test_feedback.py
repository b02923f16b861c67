from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.models import Vote
from memory.feedback.votes import give_feedback
from tests import factories
from tests.dashboard.conftest import html_of, squeezed

URL = "/feedback/"


def vote(team: Team, rating: str, number: int = 0, **subject: Any) -> Vote:
    opinion = OpinionIn(rating=rating, reason="outdated" if rating == "down" else "")
    subject_in = SubjectIn(**subject)
    return give_feedback(team=team, subject=subject_in, opinion=opinion, rater=f"rater:{number}")


def test_an_empty_page_says_how_to_begin(owner_client: Client, team: Team) -> None:
    html = html_of(owner_client, URL)
    assert "No votes yet" in html
    assert "/api/v1/feedback" in html


@pytest.fixture
def judged(team: Team, assembly: Assembly, space: Space) -> Assembly:
    for number in range(3):
        vote(team, "down", number, assembly_id=assembly.pk)
    vote(team, "up", 9, assembly_id=assembly.pk)
    return assembly


def test_tiles_groups_and_records(owner_client: Client, judged: Assembly) -> None:
    html = html_of(owner_client, URL)
    assert 'id="tile-liked"' in html
    assert '<p class="value">25 <small>%</small>' in html
    assert "Queue stuck after deploy" in html
    assert "Stage 4" in html
    assert "<td>Support notes</td>" in html
    assert '<span class="faint">Support notes</span>' in html
    assert 'id="chart-data"' in html
    assert "rating=down" in html


def test_downvotes_are_listed_by_reason(owner_client: Client, judged: Assembly, team: Team) -> None:
    opinion = OpinionIn(rating="down")
    give_feedback(team=team, subject=SubjectIn(assembly_id=judged.pk), opinion=opinion, rater="rater:4")
    html = squeezed(html_of(owner_client, URL))
    assert '<th scope="row" class="break">outdated</th><td class="n">3</td>' in html
    assert '<th scope="row" class="break">no reason given</th><td class="n">1</td>' in html


def test_votes_on_audited_prompts_are_listed_but_for_no_stage(
    owner_client: Client, space: Space, team: Team
) -> None:
    vote(team, "down", assembly_id=factories.make_audited_assembly(space).id)
    for query, rows in (("", 1), ("?stage=4", 0), ("?version=1", 0)):
        assert html_of(owner_client, f"{URL}votes/{query}").count('<th scope="row"><span') == rows


def test_filters(owner_client: Client, judged: Assembly, space: Space, team: Team) -> None:
    other = factories.make_assembly(factories.make_space(team, "other"), stage=2)
    vote(team, "up", assembly_id=other.id)
    assert ">25 <small>%" in html_of(owner_client, f"{URL}?stage=4")
    assert ">100 <small>%" in html_of(owner_client, f"{URL}?space=other")
    assert ">100 <small>%" in html_of(owner_client, f"{URL}?stage=2&version=1")
    assert "No votes in this period" in html_of(owner_client, f"{URL}?version=7")
    assert "No votes in this period" in html_of(owner_client, f"{URL}?phase=building")
    Vote.objects.update(created_at=timezone.now() - timedelta(days=20))
    assert "No votes in this period" in html_of(owner_client, f"{URL}?range=7d")
    assert ">40 <small>%" in html_of(owner_client, f"{URL}?range=30d")
    html = html_of(owner_client, f"{URL}?version=0&stage=x")
    assert "Version: Ensure this value" in html


def test_partial(partial: Any, judged: Assembly) -> None:
    partial(f"{URL}?range=30d", "feedback")
    partial(f"{URL}votes/?rating=down", "votes")


def test_csv(owner_client: Client, judged: Assembly) -> None:
    response = owner_client.get(f"{URL}charts/votes.csv?range=7d")
    rows = b"".join(response.streaming_content).decode().splitlines()
    assert rows[0] == "start,end,votes,Upvotes,Downvotes"
    assert rows[-1].endswith(",4,1,3")
    assert owner_client.get(f"{URL}charts/none.csv").status_code == 404


def test_the_votes_behind_a_figure(owner_client: Client, judged: Assembly, team: Team) -> None:
    record = judged.space.records.get()
    external = factories.make_assembly(judged.space, stage=2)
    vote(team, "up", external_message_id="m-<1>", assembly_id=external.id)

    def count(query: str) -> int:
        return html_of(owner_client, f"{URL}votes/?{query}").count('<th scope="row"><span')

    assert count("") == 5
    assert count("rating=down") == 3
    assert count("stage=2") == 1
    assert count("reason=outdated") == 3
    assert count(f"record={record.pk}&rating=down") == 3
    assert count(f"record={record.pk + 1}") == 0
    assert count("start=2999-01-01") == 0
    assert count("stage=x") == 0
    assert "m-&lt;1&gt;" in html_of(owner_client, f"{URL}votes/")
    assert "Clear filters" in html_of(owner_client, f"{URL}votes/?rating=nonsense")


def test_the_list_of_votes_shows_the_questions(owner_client: Client, space: Space, team: Team) -> None:
    asked = factories.make_assembly(space, query="Which <queue> was replayed?")
    vote(team, "up", assembly_id=asked.id)
    assert "Which &lt;queue&gt; was replayed?</span>" in html_of(owner_client, f"{URL}votes/")


def test_what_is_another_teams_stays_there(
    outsider_client: Client, judged: Assembly, other_team: Team
) -> None:
    assert "No votes yet" in html_of(outsider_client, URL)
    assert "No votes yet" in html_of(outsider_client, f"{URL}votes/")


def test_the_queries_do_not_grow_with_the_votes(owner_client: Client, team: Team, assembly: Assembly) -> None:
    counts = []
    for batch, number in enumerate((2, 20)):
        for n in range(number):
            vote(team, "down", 100 * batch + n, assembly_id=assembly.pk)
        with CaptureQueriesContext(connection) as queries:
            # the frame's four; spaces of the filter; two periods; four groupings; records
            html_of(owner_client, URL)
        with CaptureQueriesContext(connection) as more:
            # the frame's four; the votes; spaces of the filter
            html_of(owner_client, f"{URL}votes/")
        counts.append((len(queries), len(more)))
    assert counts == [(12, 6), (12, 6)]
