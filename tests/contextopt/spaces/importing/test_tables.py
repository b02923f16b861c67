"""Tables as spreadsheets of many countries save them."""

from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from contextopt.people.models import Team
from contextopt.spaces.importing.charsets import WINDOWS_NOTICE
from contextopt.spaces.models import Record
from tests.imports import rejections, run_import

TABLE = 'title;date;notes\r\nBåtplass;3.9.2026;"Kai 4; ytterst"\r\nTørrdokk;04.09.2026 07:15;\r\n'


@pytest.fixture
def oslo(db: None) -> Team:
    team = Team.objects.ensure_default()
    team.time_zone = "Europe/Oslo"
    team.save()
    return team


@pytest.mark.usefixtures("oslo")
@pytest.mark.parametrize(
    "start", ["", "sep=;\r\n", '"sep=;"\r\n', "SEP=;\n"], ids=["bare", "sep", "quoted", "upper"]
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252"])
def test_a_table_is_read_however_it_was_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], start: str, encoding: str
) -> None:
    path = tmp_path / "berths.csv"
    path.write_bytes((start + TABLE).encode(encoding))
    answer = run_import(capsys, "s", path)
    assert answer["created"] == 2
    messages = [each["message"] for each in answer["left_out"]]
    assert messages == ([WINDOWS_NOTICE] if encoding == "cp1252" else [])
    first, second = Record.objects.order_by("id")
    assert (first.title, first.notes, second.title) == ("Båtplass", "Kai 4; ytterst", "Tørrdokk")
    assert first.date.isoformat() == "2026-09-02T22:00:00+00:00"
    assert second.date.isoformat() == "2026-09-04T05:15:00+00:00"


@pytest.mark.django_db
@pytest.mark.parametrize(("sign", "line"), [("|", "sep=|"), ("\t", "sep=\t"), ("^", "sep=^")])
def test_any_sign_can_separate_cells_if_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sign: str, line: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{line}\ntitle{sign}notes\na, b; c{sign}d\n")
    assert run_import(capsys, "s", path)["created"] == 1
    record = Record.objects.get()
    assert (record.title, record.notes) == ("a, b; c", "d")


@pytest.mark.django_db
def test_another_encoding_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("title,notes\nПричал,Четыре\n".encode("cp1251"))
    assert run_import(capsys, "s", path, "--encoding", "windows-1251")["left_out"] == []
    assert Record.objects.get().title == "Причал"
    with pytest.raises(CommandError, match="--encoding: there is no text encoding 'klingon'"):
        call_command("import_records", "s", str(path), encoding="klingon")
    with pytest.raises(CommandError, match="--encoding"):
        call_command("import_records", "s", str(path), encoding="base64")


@pytest.mark.django_db
@pytest.mark.parametrize("encoding", ["utf-16", "utf-8"])
def test_a_table_that_ends_being_in_its_encoding_is_read_up_to_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], encoding: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("title\nEn båt\n".encode(encoding) * 1 + "To\n".encode(encoding)[-6:] + b"\xd8")
    answer = run_import(capsys, "s", path, code=1)
    assert "En båt" in set(Record.objects.values_list("title", flat=True))
    assert answer["rejected"]


@pytest.mark.django_db
def test_a_damaged_line_of_a_utf_8_table_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes("title\nBåt\n".encode() + b"b\xe5t\n" + b"plain\n")
    assert rejections(run_import(capsys, "s", path, code=1)) == [(3, "title")]


@pytest.mark.django_db
def test_columns_become_the_fields_that_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("Emne;Tekst;title;Intern;Eier\nMøte;Kort;Gammel;x;Ann\n")
    columns = ["--column", "Emne=title", "--column", "Tekst=notes", "--column", "title=metadata",
               "--column", "Intern=-"]  # fmt: skip
    answer = run_import(capsys, "s", table, *columns)
    assert answer["created"] == 1
    assert [each["message"] for each in answer["left_out"]] == ["the column 'Intern' was left out"]
    record = Record.objects.get()
    assert (record.title, record.notes) == ("Møte", "Kort")
    assert record.metadata == {"title column": "Gammel", "Eier": "Ann"}
    rows = tmp_path / "rows.json"
    rows.write_text('[{"Emne": "Møte", "Tekst": "Kort", "title": "Gammel", "Intern": "x", "Eier": "Ann"}]')
    assert run_import(capsys, "s", rows, *columns)["unchanged"] == 1


@pytest.mark.django_db
@pytest.mark.parametrize("given", ["Emne", "Emne=overskrift", "=title"])
def test_an_unknown_field_of_a_column_is_refused(tmp_path: Path, given: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("Emne\na\n")
    with pytest.raises(CommandError, match="--column: "):
        call_command("import_records", "s", str(path), column=[given])


@pytest.mark.usefixtures("oslo")
def test_the_order_of_dates_can_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("title,date\nA,03/04/2026\n")
    run_import(capsys, "s", path, "--dates", "month-first")
    assert Record.objects.get().date.isoformat() == "2026-03-03T23:00:00+00:00"


@pytest.mark.django_db
def test_the_team_says_how_it_writes_dates(
    oslo: Team, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Team.objects.update(date_order="month")
    path = tmp_path / "rows.csv"
    path.write_text("title;date\nA;03/04/2026\n")
    answer = run_import(capsys, "s", path)
    assert Record.objects.get().date.isoformat() == "2026-03-03T23:00:00+00:00"
    assert "read month first, as the team's settings say" in answer["left_out"][0]["message"]


@pytest.mark.usefixtures("oslo")
@pytest.mark.parametrize(
    "table",
    [
        "Dato;Emne;Tekst;Forfatter;Kategori\n4.3.2026;Brua stenger;Kai 4, 1.200,50 kr;Åse;Drift\n",
        "Datum;Betreff;Text;Verfasser;Kategorie\n4.3.2026;Brua stenger;Kai 4, 1.200,50 kr;Åse;Drift\n",
        "Texte;Date;Objet;Auteur;Catégorie\nKai 4, 1.200,50 kr;4/3/2026;Brua stenger;Åse;Drift\n",
        "asunto;fecha;texto;autor;categoria\nBrua stenger;4/3/2026;Kai 4, 1.200,50 kr;Åse;Drift\n",
        "日付\t件名\t本文\t作成者\t分類\n2026年3月4日\tBrua stenger\tKai 4, 1.200,50 kr\tÅse\tDrift\n",
        "SUBJECT;Created;Body;From;Category\nBrua stenger;2026-03-04;Kai 4, 1.200,50 kr;Åse;Drift\n",
    ],
    ids=["no", "de", "fr", "es", "ja", "en"],
)
def test_the_names_of_columns_are_understood_in_many_languages(
    table: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(table)
    answer = run_import(capsys, "s", path)
    assert answer["created"] == 1
    record = Record.objects.get()
    assert (record.title, record.notes, record.type) == ("Brua stenger", "Kai 4, 1.200,50 kr", "Drift")
    assert record.date.isoformat() == "2026-03-03T23:00:00+00:00"
    assert record.metadata == {"author": "Åse"}
    read_as = [
        each["message"].rpartition(" ")[2] for each in answer["left_out"] if "read as" in each["message"]
    ]
    assert {"title", "notes", "author", "type"} <= set(read_as)


@pytest.mark.django_db
def test_a_column_that_has_the_name_of_a_field_keeps_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("Emne;title;Tekst;Innhold;author;Verfasser;position\na;b;c;d;e;f;3,0\n")
    run_import(capsys, "s", path)
    record = Record.objects.get()
    assert (record.title, record.notes, record.position) == ("b", "c", 3)
    assert record.metadata == {"Emne": "a", "Innhold": "d", "author": "e", "Verfasser": "f"}
    named = tmp_path / "named.csv"
    named.write_text("Emne;Tekst;Notat\na2;c2;d2\n")
    run_import(capsys, "s", named, "--column", "Notat=notes")
    record = Record.objects.latest("id")
    assert (record.title, record.notes, record.metadata) == ("a2", "d2", {"Tekst": "c2"})
