import contextlib
import gzip
import io
import json
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from contextopt.people.models import Team
from contextopt.spaces.importing import pipeline
from contextopt.spaces.importing.files import open_input, read_file
from contextopt.spaces.importing.formats import read_path
from contextopt.spaces.importing.pipeline import ImportReport, import_rows
from contextopt.spaces.importing.rows import RawRow, Rejection
from contextopt.spaces.models import Record, Space
from tests.factories import NOW
from tests.imports import rejections, run_import, write_jsonl
from tests.queries import count_queries


@pytest.mark.django_db
def test_rows_become_records_of_a_new_space(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_jsonl(
        tmp_path / "rows.jsonl",
        {"title": "Blåbær", "date": "2026-06-14", "tags": ["a"], "source": "wiki", "external_id": "1"},
        {"title": "Two", "notes": "n", "pinned": True, "position": 3, "metadata": {"k": [1]}},
    )
    answer = run_import(capsys, "field-notes", path)
    assert (answer["read"], answer["created"]) == (2, 2)
    space = Space.objects.get(slug="field-notes", team__slug="default")
    assert space.name == "Field notes"
    first, second = Record.objects.filter(space=space).order_by("id")
    assert (first.title, first.tags, first.external_id) == ("Blåbær", ["a"], "1")
    assert (second.pinned, second.position, second.metadata) == (True, 3, {"k": [1]})


@pytest.mark.django_db
def test_importing_twice_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_jsonl(
        tmp_path / "rows.jsonl",
        {"title": "With id", "external_id": "1"},
        {"title": "Without id", "other": "kept", "third": 3},
        {"title": "Without id or date", "metadata": {"b": 1, "a": 2}},
    )
    assert run_import(capsys, "s", path)["created"] == 3
    before = list(Record.objects.order_by("id").values())
    assert run_import(capsys, "s", path)["unchanged"] == 3
    assert list(Record.objects.order_by("id").values()) == before


@pytest.mark.django_db
@pytest.mark.parametrize("between", [0, 30], ids=["same batch", "another batch"])
def test_the_first_row_of_a_key_is_kept_and_later_ones_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, between: int
) -> None:
    monkeypatch.setattr(pipeline, "BATCH_ROWS", 10)
    rows = [{"title": f"row {number}", "external_id": str(number)} for number in range(between)]
    first, last = ({"title": title, "source": "wiki", "external_id": "x"} for title in "AB")
    path = write_jsonl(tmp_path / "rows.jsonl", first, *rows, last, first)
    for created in (between + 1, 0):
        answer = run_import(capsys, "s", path, code=1)
        # The last row equals the first.
        assert (answer["created"], answer["unchanged"], answer["updated"]) == (
            created,
            between + 2 - created,
            0,
        )
        assert rejections(answer) == [(between + 2, "external_id")]
        assert "as line 1," in answer["rejected"][0]["error"]
    record = Record.objects.get(external_id="x")
    assert (record.title, record.revisions.count()) == ("A", 0)


@pytest.mark.django_db
def test_files_whose_names_are_not_utf_8_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Linux allows any bytes in a name.
    (folder := tmp_path / "m\udce4rz").mkdir()
    first = write_jsonl(folder / "a.jsonl", {"title": ""})
    second = write_jsonl(tmp_path / "b.jsonl", {"title": "B"})
    answer = run_import(capsys, "s", first, second, code=1)
    assert answer["created"] == 1
    assert answer["rejected"][0]["file"] == f"{tmp_path}/m\ufffdrz/a.jsonl"


@pytest.mark.django_db
def test_one_key_in_two_files_two_sources_or_a_rejected_row_is_no_repetition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, row = {"title": " ", "external_id": "1"}, {"title": "A", "external_id": "1"}
    first = write_jsonl(tmp_path / "a.jsonl", bad, row, {**row, "source": "wiki"})
    second = write_jsonl(tmp_path / "b.jsonl", row, {"title": "B", "external_id": None}, {"title": "B"})
    answer = run_import(capsys, "s", first, second, code=1)
    assert [(item["line"], item["field"]) for item in answer["rejected"]] == [(1, "title")]
    assert (answer["created"], answer["unchanged"]) == (3, 2)


@pytest.mark.django_db
def test_a_later_file_updates_the_records_of_an_earlier_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"title": "Other", "external_id": "2"}
    files = [
        write_jsonl(tmp_path / f"{title}.jsonl", {"title": title, "external_id": "1"}, other)
        for title in ("one", "two", "three")
    ]
    answer = run_import(capsys, "s", *files)
    assert (answer["created"], answer["updated"], answer["unchanged"]) == (2, 2, 2)
    assert Record.objects.get(external_id="1").title == "three"


@pytest.mark.django_db
def test_rejections_are_listed_in_the_order_of_files_and_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, again = {"title": "A", "external_id": "1"}, {"title": "B", "external_id": "1"}
    last = write_jsonl(tmp_path / "z.jsonl", first, again, "bad", again, {"title": ""})
    early = write_jsonl(tmp_path / "a.jsonl", "bad", first, again)
    answer = run_import(capsys, "s", last, early, code=1)
    places = [(Path(item["file"]).name, item["line"]) for item in answer["rejected"]]
    assert places == [*(("z.jsonl", line) for line in (2, 3, 4, 5)), ("a.jsonl", 1), ("a.jsonl", 3)]


@pytest.mark.django_db
def test_a_changed_row_updates_its_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_import(capsys, "s", write_jsonl(tmp_path / "a.jsonl", {"title": "Old", "external_id": "1"}))
    answer = run_import(capsys, "s", write_jsonl(tmp_path / "b.jsonl", {"title": "New", "external_id": "1"}))
    assert answer["updated"] == 1
    record = Record.objects.get()
    assert record.title == "New"
    assert [revision.title for revision in record.revisions.all()] == ["Old"]


# Python 3.14 parses JSON of any depth, so that its value is refused instead.
DEEP = "row" if sys.version_info < (3, 14) else "metadata"
BAD_LINES = [
    ("{not json", "row"),
    ("[1, 2]", "row"),
    ('"text"', "row"),
    ("{}", "title"),
    ('{"title": "  "}', "title"),
    ('{"title": 5}', "title"),
    ('{"title": "t", "notes": NaN}', "row"),
    ('{"title": "t", "metadata": {"x": Infinity}}', "row"),
    ('{"title": "t", "metadata": {"x": 1e999}}', "metadata"),
    ('{"title": "t", "date": "yesterday"}', "date"),
    ('{"title": "t", "date": 1700000000}', "date"),
    ('{"title": "t", "date": "2026-01-41T10:00:00"}', "date"),
    ('{"title": "t", "date": "1900-01-01T00:00:00+14:00"}', "date"),
    ('{"title": "t", "last_viewed_at": "2998-12-31T23:59:59-12:00"}', "last_viewed_at"),
    ('{"title": "t", "tags": "a,b"}', "tags"),
    ('{"title": "t", "tags": [{}]}', "tags.0"),
    ('{"title": "nul \\u0000"}', "title"),
    ('{"title": "half \\ud800"}', "title"),
    ('{"title": "t", "unknown": "half \\udfff"}', "metadata"),
    ('{"title": "t", "unknown \\u0000": 1}', "metadata"),
    ('{"title": "t", "position": 9223372036854775808}', "position"),
    ('{"title": "t", "position": ' + "9" * 5_000 + "}", "row"),
    ('{"title": "t", "metadata": {"x": ' + "[" * 50_000 + "]" * 50_000 + "}}", DEEP),
    ("[" * 100_000, "row"),
    ('{"title": ' + "[" * 100_000, "row"),
    ('{"title": "t", "metadata": [1]}', "metadata"),
    ('{"title": "t", "metadata": {"x": 1}, "x": 2}', "x"),
    (json.dumps({"title": "t" * 1_001}), "title"),
    (json.dumps({"title": "t", "notes": "n" * 1_000_001}), "notes"),
    (json.dumps({"title": "t", "external_id": "e" * 501}), "external_id"),
    (json.dumps({"title": "t", "metadata": {"x": "y" * 70_000}}), "metadata"),
]


@pytest.mark.django_db
def test_bad_rows_are_named_by_line_and_field_and_the_rest_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line for line, _ in BAD_LINES]
    path = write_jsonl(tmp_path / "rows.jsonl", {"title": "First"}, *lines, "", {"title": "Last"})
    answer = run_import(capsys, "s", path, code=1)
    expected = [(number, field) for number, (_, field) in enumerate(BAD_LINES, start=2)]
    assert rejections(answer) == expected
    assert answer["created"] == 2
    assert all(item["error"] and len(item["error"]) <= 300 for item in answer["rejected"])


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (json.dumps([{"title": "a"}, {"title": "b"}], indent=2), {"a": 2, "b": 5}),
        ('[{"title": "a"}, {"title": "b"}]', {"a": 1, "b": 1}),
        ('[\n{"title": "a"}\n]\n', {"a": 2}),
        ('[{"title": "a"},\n{"title": "b"},\n{"title": "c"}]', {"a": 1, "b": 2, "c": 3}),
        ("[]", {}),
        (json.dumps({"title": "a", "tags": ["b"]}, indent=2), {"a": 1}),
        ('\n{"title": "a",\n\n"notes": "n"}\n', {"a": 2}),
        ('{"title": "a"\n}\n', {"a": 1}),
        ('{"title": "a",\n"notes": "n"}\n{"title": "b",\n"notes": "n"}\n', {"a": 1, "b": 3}),
    ],
)
def test_an_array_or_a_document_over_many_lines_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, lines: dict[str, int]
) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    found = {row.fields["title"]: row.line for row in read_path(str(path)) if isinstance(row, RawRow)}
    assert found == lines
    assert run_import(capsys, "s", path)["created"] == len(lines)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "rejected", "created"),
    [
        ("[", [1], 0),
        ('[{"title": "a"}', [1], 1),
        ('[{"title": "a"} {"title": "b"}]', [1], 1),
        ('[{"title": "a"},\n{"title": },\n{"title": "c"}]', [2], 1),
        ('[{"title": "a"},\n3,\n{"title": "c"}]', [2], 2),
        ('[{"title": "a"},\n{"title": "b", "title": "b"},\n{"title": "c"}]', [2], 2),
        ('[{"title": "a", "metadata": ' + "[" * 100_000 + "]}]", [1], 0),
        ('[{"title": "a"}]\nrest', [2], 1),
    ],
)
def test_what_is_wrong_in_an_array_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    rejected: list[int],
    created: int,
) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    answer = run_import(capsys, "s", path, code=1)
    assert [line for line, _ in rejections(answer)] == rejected
    assert answer["created"] == created


def test_a_long_array_is_read_in_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    rows = ({"title": f"Row {number}", "notes": "words " * 50} for number in range(60_000))
    with path.open("w") as file:
        file.write("[")
        for number, row in enumerate(rows):
            file.write(("," if number else "") + json.dumps(row))
        file.write("]")
    tracemalloc.start()
    try:
        assert sum(isinstance(row, RawRow) for row in read_path(str(path))) == 60_000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 20e6
    assert peak < 8e6


@pytest.mark.django_db
@pytest.mark.parametrize("first", ["[1,", '{"title": "cut",', "{", "[1, 2]", "[" * 100_000, '{"title": "cut'])
def test_a_file_whose_first_line_alone_is_broken_is_read_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], first: str
) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", first, {"title": "A"}, {"title": "B"})
    answer = run_import(capsys, "s", path, code=1)
    assert (rejections(answer), answer["created"]) == ([(1, "row")], 2)


@pytest.mark.django_db
def test_metadata_nested_as_deep_as_it_parses_is_stored_or_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ['{"title": "t", "metadata": {"x": ' + "[" * depth + "]" * depth + "}}" for depth in (900, 9_000)]
    path = write_jsonl(tmp_path / "rows.jsonl", *rows, {"title": "after"})
    with contextlib.suppress(SystemExit):
        call_command("import_records", "s", str(path), "--json")
    answer = json.loads(capsys.readouterr().out)
    assert answer["read"] == 3
    assert Record.objects.filter(title="after").exists()


@pytest.mark.django_db
def test_bytes_that_are_no_utf8_name_the_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(
        b'{"title": "ok"}\r\n{"title": "caf\xe9"}\n{"title": "t", "notes": "\xff"}\n\xff\xfe\xfd\n'
    )
    answer = run_import(capsys, "s", path, code=1)
    assert rejections(answer) == [(2, "title"), (3, "notes"), (4, "row")]
    assert answer["rejected"][0]["error"] == "contains text that is not UTF-8"


@pytest.mark.django_db
def test_a_line_past_the_bound_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.jsonl"
    with path.open("wb") as file:
        file.write(b'{"title": "' + b"x" * (17 * 2**20) + b'"}\n{"title": "after"}')
    answer = run_import(capsys, "s", path, code=1)
    assert rejections(answer) == [(1, "row")]
    assert answer["created"] == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "text"), [("a.data", '{"title": "J"}\n'), ("b.data", "title\nJ\n"), ("c", "")]
)
def test_the_format_is_seen_where_the_name_does_not_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert run_import(capsys, "s", path)["created"] == (1 if text else 0)


@pytest.mark.django_db
def test_gzip_is_unpacked_and_damage_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f'{{"title": "row {number} {hash(number)}"}}\n' for number in range(20_000)).encode()
    packed = gzip.compress(rows)
    whole, half = tmp_path / "rows.jsonl.gz", tmp_path / "half.jsonl.gz"
    whole.write_bytes(packed)
    half.write_bytes(packed[: len(packed) // 2])
    assert run_import(capsys, "a", whole)["created"] == 20_000
    answer = run_import(capsys, "b", half, code=1)
    assert answer["created"] > 1_000
    assert "damaged" in answer["rejected"][0]["error"]


@pytest.mark.django_db
def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"title": "piped"}\n')))
    assert run_import(capsys, "s", "-")["created"] == 1


@pytest.mark.django_db
def test_with_several_files_each_rejection_names_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write_jsonl(tmp_path / "a.jsonl", {"title": "A"}, "bad")
    second = write_jsonl(tmp_path / "b.jsonl", "bad", {"title": "B"})
    answer = run_import(capsys, "s", first, second, code=1)
    assert [(item["file"], item["line"]) for item in answer["rejected"]] == [
        (str(first), 2),
        (str(second), 1),
    ]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("space", "file", "message"),
    [
        ("s", "missing.jsonl", "does not exist"),
        ("s", "empty", "has no notes, chats or tables"),
        ("no spaces", "ok.jsonl", "SPACE"),
        ("", "ok.jsonl", "SPACE"),
        ("s", "torn.jsonl", "damaged"),
    ],
)
def test_an_unusable_call_changes_nothing(tmp_path: Path, space: str, file: str, message: str) -> None:
    write_jsonl(tmp_path / "ok.jsonl", {"title": "A"})
    (tmp_path / "empty").mkdir()
    (tmp_path / "torn.jsonl").write_bytes(b"\x1f\x8b\x08nothing of the kind")
    with pytest.raises(CommandError, match=message) as caught:
        call_command("import_records", space, str(tmp_path / file))
    assert caught.value.returncode == 2
    assert not Space.objects.exists()


@pytest.mark.django_db
def test_the_readable_answer_counts_and_names_what_was_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", {"title": "A", "colour": "red"}, "bad")
    with pytest.raises(SystemExit) as caught:
        call_command("import_records", "s", str(path))
    out, err = capsys.readouterr()
    assert caught.value.code == 1
    assert out == "2 read: 1 created, 0 updated, 0 unchanged, 1 rejected\n"
    assert "rejected line 2: row:" in err
    assert "Stored in metadata, because records have no such fields: colour." in err


@pytest.mark.django_db
def test_a_team_is_named_or_the_default(
    team: Team, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", {"title": "A"})
    run_import(capsys, "s", path, "--team", team.slug)
    assert Space.objects.get().team == team
    with pytest.raises(CommandError, match="--team: there is no team 'nobody'"):
        call_command("import_records", "s", str(path), "--team", "nobody")


@pytest.mark.django_db
def test_a_deleted_record_stays_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", {"title": "A", "external_id": "1"})
    run_import(capsys, "s", path)
    Record.objects.update(deleted_at=NOW)
    assert run_import(capsys, "s", path)["unchanged"] == 1
    assert Record.objects.get().is_deleted


def test_an_import_that_was_stopped_is_finished_by_running_it_again(space: Space) -> None:
    def rows(stop_at: int) -> Any:
        for number in range(2_500):
            if number == stop_at:
                raise KeyboardInterrupt
            yield RawRow(number + 1, {"title": f"row {number}", "external_id": str(number)}, 10)

    report = ImportReport()
    with pytest.raises(KeyboardInterrupt):
        import_rows(space=space, rows=rows(2_400), actor="test", report=report)
    assert (report.read, Record.objects.count()) == (2_000, 2_000)
    report = ImportReport()
    import_rows(space=space, rows=rows(-1), actor="test", report=report)
    assert (report.unchanged, report.created) == (2_000, 500)


def test_a_batch_is_bounded_in_rows_and_bytes(space: Space) -> None:
    sizes: list[int] = []
    big = [RawRow(n, {"title": f"big {n}", "notes": "x" * 100_000}, 3 * 2**20) for n in range(7)]
    report = ImportReport()
    import_rows(
        space=space, rows=big, actor="test", report=report, on_batch=lambda state: sizes.append(state.read)
    )
    assert sizes == [3, 6, 7]


def test_a_batch_costs_the_same_queries_at_2_rows_and_at_200(space: Space) -> None:
    def count(rows: int) -> int:
        found = [RawRow(n, {"title": f"{rows}-{n}"}, 10) for n in range(rows)]
        report = ImportReport()
        return count_queries(lambda: import_rows(space=space, rows=found, actor="test", report=report))

    count(1)
    assert count(2) == count(200)


def test_rejections_are_kept_up_to_a_bound_and_all_counted(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "REJECTIONS_KEPT", 5)
    report = ImportReport()
    import_rows(space=space, rows=[Rejection(n, "row", "bad") for n in range(9)], actor="t", report=report)
    assert (report.rejected_count, len(report.rejected)) == (9, 5)


def test_reading_takes_the_same_memory_for_any_length(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with path.open("w") as file:
        for number in range(100_000):
            file.write(f'{{"title": "row {number}", "notes": "{"x" * 100}"}}\n')
    tracemalloc.start()
    with open_input(str(path)) as stream:
        assert sum(1 for _ in read_file(stream, str(path))) == 100_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000


@pytest.mark.django_db
def test_a_line_that_ends_too_early_is_faulty_at_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"title": "a"}\n{"title": "b", "notes": "cut\r\n{"title": "c"\n')
    answer = run_import(capsys, "s", path, code=1)
    assert [(row["line"], row["error"].rpartition(" at ")[2]) for row in answer["rejected"]] == [
        (2, "character 25"),
        (3, "character 14"),
    ]
