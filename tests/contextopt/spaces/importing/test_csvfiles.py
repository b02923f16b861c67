"""CSV as spreadsheets write it, and as they break it."""

import contextlib
import gzip
import io
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from contextopt.spaces.importing.csvfiles import COLUMNS_MAX, read_table
from contextopt.spaces.importing.rows import Lines, RawRow, Rejection, ReturnsAsFeeds, UnusableSource
from contextopt.spaces.models import Record, Space
from tests.imports import rejections, run_import
from tests.speed import within


@pytest.mark.django_db
def test_csv_with_what_spreadsheets_do_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(
        b"\xef\xbb\xbfTitle;Tags;notes;metadata;Owner;pinned;date\r\n"
        b'One;"a; b";"line one\r\nline ""two""";"{""k"": 1}";Ann;yes;2026-06-01\r\n'
        b"Two;x,y;;;;;\r\n"
        b"\r\n"
        b'Three;["p", "q"]\r\n'
        b"Four;;;not json;;;\r\n"
        b"Five;;;;;maybe;\r\n"
        b"Six;;;;;;;;;;\r\n"
        b";;;;;;\r\n"
    )
    answer = run_import(capsys, "s", path, code=1)
    assert rejections(answer) == [(7, "metadata"), (8, "pinned"), (9, "row")]
    one, two, three = Record.objects.order_by("id")
    assert (one.tags, one.pinned, one.metadata) == (["a", "b"], True, {"k": 1, "Owner": "Ann"})
    assert one.notes == 'line one\r\nline "two"'
    assert (two.tags, three.tags) == (["x", "y"], ["p", "q"])
    assert run_import(capsys, "s", path, code=1)["unchanged"] == 3


@pytest.mark.django_db
def test_a_csv_row_is_reported_under_the_line_it_starts_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('title,notes\nok,"a\nb\nc"\n,"d\ne"\n,f\n')
    assert rejections(run_import(capsys, "s", path, code=1)) == [(5, "title"), (7, "title")]


@pytest.mark.django_db
def test_csv_that_is_broken_ends_somewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(
        b'title,notes\nok,fine\nnul\x00,x\nbytes \x81,y\nopen,"never closed\n' + b"z" * 3_000_000
    )
    answer = run_import(capsys, "s", path, code=1)
    assert rejections(answer)[:3] == [(3, "title"), (4, "title"), (5, "row")]
    assert answer["created"] == 1


@pytest.mark.django_db
def test_a_csv_line_past_the_bound_takes_its_row_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(
        b"title,notes\na,b\nlong," + b"x" * (17 * 2**20) + b'\nc,"d\n' + b"y" * (17 * 2**20) + b'\nz"\ne,f\n'
    )
    answer = run_import(capsys, "s", path, code=1)
    assert rejections(answer) == [(3, "row"), (4, "row")]
    assert set(Record.objects.values_list("title", flat=True)) == {"a", "e"}


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_csv_whose_lines_end_in_lone_carriage_returns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    text = b'title,notes\ra,b\rc,"d\re"\r,f\rg,"h\r\ni"'
    path = tmp_path / name
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert rejections(run_import(capsys, "s", path, code=1)) == [(5, "title")]
    rows = Record.objects.order_by("id").values_list("title", "notes")
    assert list(rows) == [("a", "b"), ("c", "d\ne"), ("g", "h\r\ni")]


@pytest.mark.django_db
def test_a_carriage_return_within_a_line_rejects_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b'title,notes\na\rb,c\nd,"e\rf"\n')
    answer = run_import(capsys, "s", path, code=1)
    assert rejections(answer) == [(2, "row")]
    assert "lone carriage return" in answer["rejected"][0]["error"]
    assert Record.objects.get().notes == "e\rf"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("row", "opens"),
    [('open,"never closed', 3), ('"two\nlines","open\n\n', 4), ('"a\nb",c,"', 4), ('"""\n', 3)],
)
def test_a_quote_that_is_never_closed_rejects_its_row_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: str, opens: int
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"title,notes,type\nok,fine,\n{row}\nb,d,\nc,d,\n")
    answer = run_import(capsys, "s", path, code=1)
    assert rejections(answer) == [(3, "row")]
    assert f"the quote that opens in line {opens} is never closed" in answer["rejected"][0]["error"]
    assert answer["created"] == 1


@pytest.mark.django_db
def test_a_quote_that_is_closed_by_a_later_rows_is_no_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('title,notes\na,"never closed\nb,"x"\nc,d "e" f\n')
    answer = run_import(capsys, "s", path, code=1)
    assert rejections(answer) == [(2, "row")]
    assert Record.objects.get().notes == 'd "e" f'


@pytest.mark.parametrize("padding", range(7))
def test_a_carriage_return_at_the_end_of_what_was_read_is_told_by_what_follows(padding: int) -> None:
    text = b"x" * padding + b"a\r\nb\rc\r\r\nd\r"
    stream = io.BufferedReader(ReturnsAsFeeds(io.BufferedReader(io.BytesIO(text), 4)), 3)
    assert stream.read() == b"x" * padding + b"a\r\nb\nc\n\r\nd\n"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("\ntitle,no\rtes\n", r"line 2: the header is not CSV: a lone carriage return"),
        ("title," + "n" * 2_000_001 + "\n", r"line 1: the header is not CSV: a cell is longer"),
        ('title,"notes\n', r"line 1: the header is not CSV: the quote that opens in line 1 is never closed"),
    ],
    ids=["return", "long", "open"],
)
def test_a_header_that_is_no_csv_is_refused_with_its_line(tmp_path: Path, header: str, message: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(f"{header}a,b\n".encode())
    with pytest.raises(CommandError, match=message) as caught:
        call_command("import_records", "s", str(path))
    assert caught.value.returncode == 2
    assert not Space.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("title,Område,\x81\nOne,x\n".encode("latin-1"), "line 1 is not UTF-8: name the file's encoding"),
        (b"\x89PNG\r\n\x1a\n", "its header names no field of a record"),
        (b"# Notes\n\nSome, text, here\n", "its header names no field of a record"),
    ],
    ids=["unknown bytes", "picture", "Markdown"],
)
def test_a_file_that_is_no_table_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "rows"
    path.write_bytes(content)
    with pytest.raises(CommandError, match=message) as caught:
        call_command("import_records", "s", str(path))
    assert caught.value.returncode == 2
    assert not Space.objects.exists()


@pytest.mark.django_db
def test_a_header_that_names_a_column_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("title,Title\na,b\n")
    with pytest.raises(CommandError, match="'title' twice") as caught:
        call_command("import_records", "s", str(path))
    assert caught.value.returncode == 2
    assert not Space.objects.exists()


def test_a_header_of_many_columns_is_refused_at_once() -> None:
    names = [f"c{number}" for number in range(20_000)]
    # Looking each name up in a list took six seconds.
    refusal = "must name at most 1,000 columns, it names 20,000"
    with within(1), pytest.raises(UnusableSource, match=refusal):
        list(read_table(Lines(io.BytesIO(",".join(names).encode())), ""))


def test_a_header_of_a_thousand_columns_is_read_and_blank_ones_do_not_count() -> None:
    names = ["title", *(f"c{number}" for number in range(COLUMNS_MAX - 1))]
    (row,) = read_table(Lines(io.BytesIO((",".join(names) + "," * 500 + "\n1,2\n").encode())), "")
    assert isinstance(row, RawRow)
    assert row.fields == {"title": "1", "c0": "2"}


@pytest.mark.django_db
def test_values_below_an_empty_header_go_to_the_metadata(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("title,,notes, ,\na,b,c,,\nd,,e,\tf,\ng,,h, ,\n")
    with contextlib.suppress(SystemExit):
        call_command("import_records", "s", str(path))
    noted = "Stored in metadata, because records have no such fields: column 2, column 4.\n"
    assert capsys.readouterr().err == noted
    metadata = dict(Record.objects.values_list("title", "metadata"))
    assert metadata == {"a": {"column 2": "b"}, "d": {"column 4": "\tf"}, "g": {}}


def test_an_empty_header_that_another_column_names_is_refused() -> None:
    with pytest.raises(UnusableSource, match="names the column 'column 2' twice"):
        list(read_table(Lines(io.BytesIO(b"title,,Column 2,column 2\na,b,c,d\n")), ""))


def test_a_row_with_too_many_values_below_empty_headers_is_rejected() -> None:
    text = "title" + "," * 3_000 + "\na" + "," * 1_000 + ",x" * 1_001 + "\nb,x\n"
    refused, kept = read_table(Lines(io.BytesIO(text.encode())), "")
    assert isinstance(refused, Rejection)
    assert refused.error == "has values in more than 1,000 columns without a name"
    assert isinstance(kept, RawRow)
    assert kept.fields == {"title": "b", "column 2": "x"}
