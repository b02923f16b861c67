import csv
import hashlib
import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext

from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.assemblies.purge import purge_record
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from dashboard.kit.responses import PAGE_ROWS
from dashboard.pages.assemblies.filters import MAX_QUIET, AssembliesForm
from memory.feedback.inputs import OpinionIn, SubjectIn
from memory.feedback.votes import give_feedback
from tests.dashboard.conftest import HTMX, html_of, squeezed
from tests.dashboard.pages.overview.test_figures import log_row
from tests.factories import NOW, make_assembly, make_record, make_space
from tests.queries import count_at_2_and_20

URL = "/assemblies/"


def numbers(client: Client, query: str = "") -> list[int]:
    """Return the listed ids in order."""
    html = client.get(f"{URL}?{query}").content.decode()
    return [
        int(part.split("/")[0])
        for part in html.split('<th scope="row"><a class="link" data-row href="/assemblies/')[1:]
    ]


def test_the_newest_come_first(owner_client: Client, space: Space) -> None:
    rows = [log_row(space, NOW - timedelta(hours=hours)) for hours in (2, 0, 1)]
    assert numbers(owner_client) == [rows[1].pk, rows[2].pk, rows[0].pk]


def test_an_empty_list_says_how_to_make_one(owner_client: Client, team: Team) -> None:
    html = owner_client.get(URL).content.decode()
    assert "No assemblies yet" in html
    assert "curl" in html


def test_pages_lose_and_repeat_nothing(owner_client: Client, space: Space) -> None:
    made = [log_row(space, NOW - timedelta(seconds=number // 3)).pk for number in range(PAGE_ROWS + 7)]
    first = numbers(owner_client)
    cursor = owner_client.get(URL).content.decode().split("before=")[1].split('"')[0]
    # An assembly logged in the meantime moves nothing.
    log_row(space, NOW + timedelta(hours=1))
    second = numbers(owner_client, f"before={cursor}")
    assert sorted(first + second) == made
    assert len(second) == 7


@pytest.mark.parametrize("cursor", ["x", "1", "1.2.3", "9" * 40, "999999999999999999.1", "%00", "-1.1"])
def test_a_cursor_that_was_cut_is_page_one(cursor: str, owner_client: Client, space: Space) -> None:
    log_row(space, NOW)
    assert owner_client.get(f"{URL}?before={cursor}").status_code == 200


def test_filters(owner_client: Client, space: Space) -> None:
    other = make_space(space.team, "other")
    plain = log_row(space, NOW)
    elsewhere = log_row(
        other, NOW - timedelta(days=1), stage=3, truncated=False, conversation="c-1", sha256="cd" * 32
    )
    assert numbers(owner_client, "space=other") == [elsewhere.pk]
    assert numbers(owner_client, "stage=4") == [plain.pk]
    assert numbers(owner_client, "truncated=no") == [elsewhere.pk]
    assert numbers(owner_client, "conversation=c-1") == [elsewhere.pk]
    assert numbers(owner_client, "find=cdcdcd") == [elsewhere.pk]
    assert numbers(owner_client, "find=c-1") == [elsewhere.pk]
    assert numbers(owner_client, "find=c-") == []
    assert numbers(owner_client, f"find={plain.pk}") == [plain.pk]
    assert numbers(owner_client, "start=2026-06-15") == [plain.pk]
    assert numbers(owner_client, "end=2026-06-14") == [elsewhere.pk]
    assert numbers(owner_client, "end=2026-06-15T12:00:00Z") == [elsewhere.pk]


@pytest.mark.parametrize(
    "query",
    ["start=yesterday", "end=2026-13-01", "start=0001-01-01", "stage=9", "space=x", "config=0", "config=x",
     "conversation=" + "x" * 201, "conversation=%00", "start=2026-01-01T00:00:00%2B99:00"],
)  # fmt: skip
def test_filters_that_cannot_be_read_say_so(query: str, owner_client: Client, space: Space) -> None:
    log_row(space, NOW)
    response = owner_client.get(f"{URL}?{query}")
    assert response.status_code == 200
    assert 'role="alert"' in response.content.decode()
    assert numbers(owner_client, query) == []
    assert owner_client.get(f"/assemblies.csv?{query}").status_code == 400


def test_the_partial_is_the_list(partial, space: Space) -> None:
    log_row(space, NOW)
    assert "id_space" not in partial(URL, "assemblies")


def test_as_many_queries_for_twenty_as_for_two(owner_client: Client, space: Space) -> None:
    counts = []
    for wanted in (2, 20):
        while Assembly.objects.count() < wanted:
            log_row(space, NOW)
        with CaptureQueriesContext(connection) as queries:
            # the frame's four, spaces of the filter, the page with spaces and configs, questions, votes,
            # saved views
            owner_client.get(URL)
        counts.append(len(queries))
        # Texts and ledgers are long: the list must not read them.
        assert not any('"ledger"' in query["sql"] or '"text"' in query["sql"] for query in queries)
    assert counts == [10, 10]


def test_a_row_shows_the_question_who_asked_and_the_votes(
    owner_client: Client, team: Team, space: Space
) -> None:
    make_record(space)
    asked = make_assembly(space, query="Why <b>so</b> slow?")
    opinion = OpinionIn(rating="up")
    give_feedback(team=team, subject=SubjectIn(assembly_id=asked.id), opinion=opinion, rater="user:ann")
    log_row(space, NOW - timedelta(days=1))
    html = owner_client.get(URL).content.decode()
    assert "Why &lt;b&gt;so&lt;/b&gt; slow?" in html
    assert '<td title="test">test</td>' in html
    assert html.count("upvotes</span>") == 1
    assert html.count("downvotes</span>") == 0


def test_an_assembly_leads_to_its_neighbours_in_the_space(owner_client: Client, space: Space) -> None:
    rows = [log_row(space, NOW).pk for _ in range(3)]
    log_row(make_space(space.team, "other"), NOW)
    html = owner_client.get(f"{URL}{rows[1]}/").content.decode()
    assert f'rel="prev" href="{URL}{rows[0]}/"' in html
    assert f'rel="next" href="{URL}{rows[2]}/"' in html
    assert f"{URL}compare/?id={rows[0]}&amp;id={rows[1]}" in html
    assert 'rel="prev"' not in owner_client.get(f"{URL}{rows[0]}/").content.decode()
    assert 'rel="next"' not in owner_client.get(f"{URL}{rows[2]}/").content.decode()


def test_csv_has_every_row_that_passes(owner_client: Client, space: Space) -> None:
    Team.objects.update(time_zone="Europe/Oslo")
    for number in range(PAGE_ROWS + 5):
        log_row(space, datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(minutes=number), conversation="=1+1")
    log_row(space, NOW, stage=3)
    response = owner_client.get("/assemblies.csv?stage=4")
    rows = list(csv.DictReader(b"".join(response.streaming_content).decode().splitlines()))
    assert len(rows) == PAGE_ROWS + 5
    assert rows[-1]["created_at"] == "2026-01-01T13:00:00+01:00"
    assert rows[0]["space"] == "support"
    # A formula stays text in a spreadsheet.
    assert rows[0]["conversation"] == "'=1+1"


def test_jsonl_has_every_row_that_passes(owner_client: Client, space: Space) -> None:
    for number in range(PAGE_ROWS + 5):
        log_row(space, NOW + timedelta(minutes=number), conversation="=1+1")
    log_row(space, NOW, stage=3)
    response = owner_client.get("/assemblies.jsonl?stage=4")
    rows = [json.loads(line) for line in b"".join(response.streaming_content).decode().splitlines()]
    assert len(rows) == PAGE_ROWS + 5
    assert rows[-1]["created_at"] == "2026-06-15T12:00:00+00:00"
    # JSONL isn't for spreadsheets: nothing is escaped.
    assert (rows[0]["conversation"], rows[0]["assembly_ms"]) == ("=1+1", 5.0)
    assert owner_client.get("/assemblies.jsonl?stage=9").status_code == 400


# Following


def test_a_list_that_follows_asks_more_seldom_while_nothing_comes(partial, space: Space) -> None:
    newest = log_row(space, NOW).pk
    assert "every" not in partial(URL, "assemblies")
    assert 'hx-trigger="every 2s, live"' in partial(f"{URL}?live=on", "assemblies")
    quiet = partial(f"{URL}?live=on&newest={newest}&quiet=3", "assemblies")
    assert 'hx-trigger="every 6s, live"' in quiet
    assert f"newest={newest}&amp;quiet=4" in quiet
    assert 'hx-trigger="every 15s, live"' in partial(f"{URL}?live=on&newest={newest}&quiet=90", "assemblies")
    log_row(space, NOW)
    assert 'hx-trigger="every 2s, live"' in partial(f"{URL}?live=on&newest={newest}&quiet=90", "assemblies")


def test_following_keeps_the_filters_and_pauses(partial, space: Space) -> None:
    log_row(space, NOW)
    html = partial(f"{URL}?live=on&stage=4", "assemblies")
    assert "?stage=4&amp;live=on&amp;newest=" in html
    assert '<a class="button" href="?stage=4">Pause</a>' in html
    # The columns that somebody hides stay hidden.
    assert 'data-columns="assemblies"' in html


@pytest.mark.parametrize(
    "query", ["newest=x&quiet=y", "newest=-1&quiet=-1", "newest=%00", "quiet=" + "9" * 30]
)
def test_a_poll_that_was_tampered_with_starts_again(query: str, partial, space: Space) -> None:
    log_row(space, NOW)
    assert 'hx-trigger="every 2s, live"' in partial(f"{URL}?live=on&{query}", "assemblies")


def test_polls_end(owner_client: Client, space: Space) -> None:
    newest = log_row(space, NOW).pk
    response = owner_client.get(
        f"{URL}?live=on&newest={newest}&quiet={MAX_QUIET}", headers={**HTMX, "HX-Target": "assemblies"}
    )
    assert response.status_code == 286
    assert "every" not in response.content.decode()
    assert "Resume" in response.content.decode()


# Comparing


def test_two_assemblies_side_by_side(owner_client: Client, space: Space) -> None:
    make_record(space, title="Queue stuck")
    before = make_assembly(space)
    make_record(space, title="Disk <full>", view_count=10)
    after = make_assembly(space, max_records=1)
    html = owner_client.get(f"/assemblies/compare/?id={after.id}&id={before.id}").content.decode()
    assert html.index(f"/assemblies/{before.id}/") < html.index(f"/assemblies/{after.id}/")
    assert "now in" in html
    assert "now out" in html
    assert "dropped, over the record limit" in html
    assert "Disk &lt;full&gt;" in html
    assert '<span class="gone">-' in html


def test_what_is_alike_says_so(owner_client: Client, space: Space) -> None:
    make_record(space)
    first, second = make_assembly(space), make_assembly(space)
    html = owner_client.get(f"/assemblies/compare/?id={first.id}&id={second.id}").content.decode()
    assert "The texts are identical, byte for byte" in html
    assert "1 candidate had the same outcome" in html


def test_assemblies_without_payload_are_compared_by_their_figures(owner_client: Client, space: Space) -> None:
    rows = [log_row(space, NOW, sha256=digit * 64, tokens_after=100) for digit in "ab"]
    html = owner_client.get(f"/assemblies/compare/?id={rows[0].pk}&id={rows[1].pk}").content.decode()
    assert "no longer stored" in html


@pytest.mark.parametrize("query", ["", "id=x", "id=1.5&id=%00", "id=" + "9" * 30])
def test_with_fewer_than_two_one_is_told_how(query: str, owner_client: Client, team: Team) -> None:
    response = owner_client.get(f"/assemblies/compare/?{query}")
    assert response.status_code == 200
    assert "Choose two assemblies" in response.content.decode()


def test_of_three_none_is_passed_over_in_silence(owner_client: Client, space: Space) -> None:
    rows = [make_assembly(space) for _ in range(3)]
    query = "&".join(f"id={row.id}" for row in rows)
    html = owner_client.get(f"/assemblies/compare/?{query}").content.decode()
    assert "3 assemblies; only two can be compared." in html
    assert all(f'value="{row.id}"' in html for row in rows[:2])


def test_others_assemblies_are_not_compared(outsider_client: Client, assembly: Assembly) -> None:
    assert outsider_client.get(f"/assemblies/compare/?id={assembly.pk}&id=1").status_code == 404


# One assembly


def page_of(client: Client, assembly_id: int | None, query: str = "") -> str:
    return html_of(client, f"/assemblies/{assembly_id}/{query}")


def test_the_inspector_shows_text_ledger_and_certificate(owner_client: Client, space: Space) -> None:
    record = make_record(space, title="Queue <stuck>")
    make_record(space, title="Long ago", date=NOW - timedelta(days=90))
    result = make_assembly(space)
    html = page_of(owner_client, result.id)
    assert "Queue &lt;stuck&gt;" in html
    assert f'id="line-{record.pk}"' in html
    assert f'data-line="line-{record.pk}"' in html
    assert re.search(r"1 candidate;\s+1 outside the date window, 0 deleted", html)
    assert result.certificate.sha256 in html
    assert "verified now" in html
    assert "recency 10.0 of 10, frequency 0.0 of 10" in html


def test_dropped_records_have_their_reason_in_words(owner_client: Client, space: Space) -> None:
    for number in range(4):
        make_record(space, title=f"Record {number}")
    result = make_assembly(space, max_records=1)
    assert "over the record limit" in page_of(owner_client, result.id)
    kept = page_of(owner_client, result.id, "?show=kept")
    assert "over the record limit" not in kept.split('id="ledger"')[1]
    assert page_of(owner_client, result.id, "?show=dropped").count('<span class="tag drop">dropped') == 3
    assert "max_records" in kept  # set by the request


def test_the_ledger_is_a_partial(partial, assembly: Assembly) -> None:
    assert "Certificate" not in partial(f"/assemblies/{assembly.pk}/?show=kept", "ledger")


def test_what_the_ledger_does_not_name_is_counted(
    owner_client: Client, space: Space, assembly: Assembly
) -> None:
    payload = assembly.payload
    payload.ledger["counts"] = {"over_record_limit": 1_250}
    AssemblyPayload.objects.filter(pk=payload.pk).update(ledger=payload.ledger)
    assert "1,250 more dropped: over the record limit" in page_of(owner_client, assembly.pk)


def test_a_changed_text_is_found_out(owner_client: Client, assembly: Assembly) -> None:
    AssemblyPayload.objects.filter(pk=assembly.pk).update(text=assembly.payload.text + "- more\n")
    html = page_of(owner_client, assembly.pk)
    assert "verified now" not in html
    assert "differ" in html


def test_the_raw_text_has_the_certificates_hash(owner_client: Client, assembly: Assembly) -> None:
    response = owner_client.get(f"/assemblies/{assembly.pk}/text")
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert hashlib.sha256(response.content).hexdigest() == assembly.sha256


def test_a_purged_text_is_said_to_be_one(
    owner_client: Client, space: Space, record, assembly: Assembly
) -> None:
    purge_record(record=record)
    html = page_of(owner_client, assembly.pk)
    assert "Some text was purged" in html
    assert "Queue stuck" not in html


def test_an_assembly_without_payload_shows_its_figures(owner_client: Client, space: Space) -> None:
    row = log_row(space, NOW)
    html = page_of(owner_client, row.pk)
    assert "Text no longer stored" in html
    assert owner_client.get(f"/assemblies/{row.pk}/text").status_code == 200


@pytest.mark.parametrize("stage", [2, 3])
def test_stages_without_scores(stage: int, owner_client: Client, space: Space) -> None:
    make_record(space)
    html = page_of(owner_client, make_assembly(space, stage=stage).id)
    assert "verified now" in html
    assert 'class="scores"' not in html


def test_the_inspector_asks_as_often_for_twenty_records_as_for_two(
    owner_client: Client, space: Space
) -> None:
    def assemble_more() -> None:
        make_record(space)
        make_assembly(space)

    def read_newest() -> None:
        page_of(owner_client, space.assemblies.latest("pk").pk)

    # the newest; the frame's four, the assembly with payload, its two neighbours, its answer, its votes, the
    # thumbs, titles, the answer's text in Chat or elsewhere, the next step of the guided start
    assert count_at_2_and_20(read_newest, assemble_more) == [16, 16]


# Empty contexts


@pytest.fixture
def sorts(space: Space) -> dict[str, int]:
    """A context that counts, one that is empty, one with a warning, and a retry that waits."""
    none = {"records_filtered": 0, "records_included": 0, "over_record_limit": 0, "truncated": False}
    rows = {
        "full": log_row(space, NOW),
        "empty": log_row(space, NOW - timedelta(hours=1), **none, tokens_after=10),
        "warned": log_row(space, NOW - timedelta(hours=2), warning_codes=["nothing_relevant"]),
        "wait": log_row(
            space, NOW - timedelta(hours=3), kind="retry", stage=None, **none,
            tokens_before=None, tokens_after=0, tokens_available=0,
        ),
    }  # fmt: skip
    return {name: row.pk for name, row in rows.items()}


def test_empty_contexts_are_filtered(owner_client: Client, sorts: dict[str, int]) -> None:
    assert numbers(owner_client, "empty=yes") == [sorts["empty"]]
    assert numbers(owner_client, "empty=yes&stage=4&space=support") == [sorts["empty"]]
    assert numbers(owner_client, "empty=yes&stage=5") == []
    assert numbers(owner_client, "warning=nothing_relevant") == [sorts["warned"]]
    assert numbers(owner_client, "warning=empty_window&kind=space") == []
    html = owner_client.get(f"{URL}?empty=yes").content.decode()
    assert '/assemblies.csv?empty=yes"' in html
    assert 'id="view-query" value="empty=yes"' in html
    assert 'role="alert"' in owner_client.get(f"{URL}?empty=perhaps").content.decode()
    assert 'role="alert"' in owner_client.get(f"{URL}?warning=perhaps").content.decode()


def row_of(html: str, number: int) -> str:
    return squeezed(html).split(f'href="/assemblies/{number}/"')[1].split("</tr>")[0]


def test_a_row_that_saves_nothing_says_so(owner_client: Client, sorts: dict[str, int]) -> None:
    html = owner_client.get(URL).content.decode()
    assert "+100" in row_of(html, sorts["full"])
    assert ">empty</span>" in row_of(html, sorts["empty"])
    assert ">nothing relevant</span>" in row_of(html, sorts["warned"])
    for name, why in (("empty", "the context is empty"), ("wait", "nothing was sent")):
        assert f'title="Not counted: {why}">–<' in row_of(html, sorts[name])
    assert "+100" not in row_of(html, sorts["warned"])
    # A wait has no budget.
    assert '<td class="n nowrap">0</td><td class="n nowrap" title=' in row_of(html, sorts["wait"])


def test_exports_say_what_counts(owner_client: Client, sorts: dict[str, int]) -> None:
    response = owner_client.get("/assemblies.csv")
    rows = list(csv.DictReader(b"".join(response.streaming_content).decode().splitlines()))
    found = {int(row["id"]): (row["tokens_saved"], row["empty"], row["warning_codes"]) for row in rows}
    assert found == {
        sorts["full"]: ("100", "False", ""),
        sorts["empty"]: ("", "True", ""),
        sorts["warned"]: ("", "False", "nothing_relevant"),
        sorts["wait"]: ("", "False", ""),
    }
    response = owner_client.get("/assemblies.jsonl?empty=yes")
    (row,) = [json.loads(line) for line in b"".join(response.streaming_content).decode().splitlines()]
    assert (row["id"], row["tokens_saved"], row["empty"]) == (sorts["empty"], None, True)


def test_the_inspector_says_why_a_saving_does_not_count(
    owner_client: Client, sorts: dict[str, int], space: Space
) -> None:
    html = owner_client.get(f"{URL}{sorts['empty']}/").content.decode()
    assert "vs the last 10 records" in html
    assert "Not counted: the context is empty" in html
    assert "Not counted" not in owner_client.get(f"{URL}{sorts['full']}/").content.decode()
    wait = owner_client.get(f"{URL}{sorts['wait']}/").content.decode()
    assert "Not counted: nothing was sent" in wait


def test_filters_of_empties_and_warnings_read_their_own_index(space: Space) -> None:
    """The query must not read a million rows that don't pass such a filter."""
    for number in range(300):
        is_rare = number % 30 == 0
        log_row(
            space, NOW - timedelta(minutes=number), records_included=4 * (not is_rare),
            over_record_limit=10 if is_rare else 6, warning_codes=["not_embedded"] if is_rare else [],
        )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE contextopt_assembly")
    for query, index in (("empty=yes", "assembly_empty"), ("warning=not_embedded", "assembly_warned")):
        rows = AssembliesForm(QueryDict(query), team=space.team).select_page("")
        plan = rows.order_by("-created_at", "-id")[:51].explain()
        # By the index itself or a bitmap of it: with ten rows both cost the same.
        assert re.search(rf"Index Scan (using|on) {index}\b", plan)


def test_contexts_of_hooks_that_did_not_arrive(owner_client, space):
    """They can be listed, and exports say so."""
    lost = make_assembly(space, awaits_delivery=True)
    make_assembly(space)
    html = owner_client.get("/assemblies/?undelivered=yes").content.decode()
    assert html.count(">not delivered<") == 1
    assert f"/assemblies/{lost.id}/" in html
    assert ">not delivered<" in owner_client.get(f"/assemblies/{lost.id}/").content.decode()
    lines = owner_client.get("/assemblies.csv").getvalue().decode().splitlines()
    rows = {row["id"]: row["not_delivered"] for row in csv.DictReader(lines)}
    assert (rows.pop(str(lost.id)), *rows.values()) == ("True", "False")


@pytest.mark.parametrize("model", ["gpt-5", "claude-opus-4-7"])
def test_the_certificate_says_what_was_counted(owner_client: Client, space: Space, model: str) -> None:
    make_record(space)
    result = make_assembly(space, model=model)
    html = html_of(owner_client, f"/assemblies/{result.id}/")
    proof = html.split('id="certificate-title"')[1].split("</section>")[0]
    assert result.certificate.statement in proof
    assert f'<dd class="mono">{model}</dd>' in proof
    assert ("on average" in proof) is (model == "claude-opus-4-7")
    assert "verified now" in proof
