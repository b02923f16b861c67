"""`manage.py search` as a shell sees it."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from contextopt.people.models import Team
from contextopt.search.models import SearchCorpus
from contextopt.spaces.models import Record, RecordEmbedding, Space
from tests.factories import NOW, make_record, make_space
from tests.memory.factories import make_memory


@pytest.fixture
def notes(db: None) -> Space:
    space = make_space(Team.objects.ensure_default(), "notes")
    make_record(space, title="Queue stuck", type="incident")
    make_record(space, title="Cake", notes="Flour and sugar.", type="note")
    return space


def test_what_was_just_written_is_found_by_words_and_meaning(notes: Space, capsys) -> None:
    call_command("search", "notes", "queue", "--json")
    output = json.loads(capsys.readouterr().out)
    first = output["results"][0]
    assert first["title"] == "Queue stuck"
    assert first["similarity"] > 0
    assert RecordEmbedding.objects.count() == 2
    assert SearchCorpus.objects.get(searchable="record", corpus_id=notes.pk).documents == 2


def test_words_for_people(notes: Space, capsys) -> None:
    call_command("search", "notes", "queue", "--limit", "1")
    assert "Queue stuck" in capsys.readouterr().out
    call_command("search", "notes", "queue", "--type", "nothing")
    assert capsys.readouterr().out == "Nothing found.\n"


def test_weak_matches_are_marked(notes: Space, capsys) -> None:
    call_command("search", "notes", "queue", "--min-relevance", "0.5")
    first, second = (line for line in capsys.readouterr().out.splitlines() if "record" in line)
    assert "Queue stuck" in first
    assert "weak match" not in first
    assert second.endswith("Cake  (weak match: 0.00)")
    with pytest.raises(CommandError, match="--min-relevance: "):
        call_command("search", "notes", "queue", "--min-relevance", "2")


def test_many_questions(notes: Space, tmp_path: Path, capsys) -> None:
    lines = [{"id": 1, "query": "queue"}, {"id": "b", "query": "sugar", "limit": 1}, {"id": 3, "limit": 0}]
    file = tmp_path / "q.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(SystemExit, match="1"):
        call_command("search", "notes", "--queries", str(file), "--type", "note", "--type", "incident")
    captured = capsys.readouterr()
    answers = [json.loads(line) for line in captured.out.splitlines()]
    assert [answer["id"] for answer in answers] == [1, "b"]
    assert [answer["results"][0]["title"] for answer in answers] == ["Queue stuck", "Cake"]
    assert "rejected line 3" in captured.err


def test_a_line_may_say_as_of_when(notes: Space, tmp_path: Path, capsys) -> None:
    make_record(notes, title="Queue of next year", date=NOW + timedelta(days=300))
    lines = [
        {"id": 1, "query": "queue", "as_of": NOW.isoformat()},
        {"id": 2, "query": "queue", "as_of": (NOW + timedelta(days=301)).isoformat()},
        {"id": 3, "query": "queue", "as_of": (NOW - timedelta(days=400)).isoformat()},
    ]
    file = tmp_path / "q.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    call_command("search", "notes", "--queries", str(file), "--kind", "record", "--limit", "2")
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = [{result["title"] for result in answer["results"]} for answer in answers]
    assert "Queue of next year" not in found[0]
    assert "Queue of next year" in found[1]
    assert found[2] == set()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere", "x"], "there is no space"),
        (["notes"], "QUERY"),
        (["notes", "x", "--limit", "0"], "--limit"),
        (["notes", "x", "--hybrid-alpha", "2"], "--hybrid-alpha"),
        (["notes", "x", "--kind", "file"], "--kind"),
        (["notes", "x", "--date-from", "soon"], "--date-from"),
        (["notes", "x", "--as-of", "soon"], "--as-of"),
    ],
)
def test_unusable_calls_name_the_option(notes: Space, arguments: list[str], complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint) as caught:
        call_command("search", *arguments)
    assert caught.value.returncode == 2


FILTERS = (
    (("--repository", "shop"), ["mine"]),
    (("--category", "money", "--category", "tax"), ["mine", "theirs"]),
    (("--trust", "external"), ["theirs"]),
    (("--repository", "shop", "--trust", "external"), []),
    # Records have no repository and no category. They are the team's own, so their trust is `user`.
    (("--trust", "user"), ["mine", "record"]),
)


@pytest.fixture
def memories(notes: Space) -> Space:
    Record.objects.filter(space=notes).delete()
    make_record(notes, title="record", notes="Rounding of prices")
    for title, repository, category, level in (
        ("mine", "shop", "money", "user"),
        ("theirs", "web", "tax", "external"),
    ):
        make_memory(
            notes.team, title=title, content="Rounding of prices", repository=repository, category=category,
            trust_level=level,
        )  # fmt: skip
    return notes


@pytest.mark.parametrize(("options", "titles"), FILTERS)
def test_filters_of_memories_come_before_ranking(
    memories: Space, capsys, options: tuple[str, ...], titles: list[str]
) -> None:
    # If hits were filtered after ranking, a limit of one would leave nothing.
    call_command("search", memories.slug, "rounding prices", *options, "--limit", "1", "--json")
    assert len(json.loads(capsys.readouterr().out)["results"]) == min(1, len(titles))
    call_command("search", memories.slug, "rounding prices", *options, "--json")
    found = json.loads(capsys.readouterr().out)["results"]
    assert sorted(result["title"] for result in found) == titles


def test_lines_of_questions_have_the_filters_too(memories: Space, tmp_path: Path, capsys) -> None:
    path = tmp_path / "questions.jsonl"
    path.write_text(
        '{"id": 1, "query": "rounding", "repositories": ["web"]}\n'
        '{"id": 2, "query": "rounding", "categories": ["money"], "trust_levels": ["user"]}\n'
    )
    call_command("search", memories.slug, "--queries", str(path))
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [[hit["title"] for hit in answer["results"]] for answer in answers] == [["theirs"], ["mine"]]
