"""Reads CSV. The header names the fields, other columns go to the metadata, and empty cells are skipped.

Values below an empty header are kept under the column's number, such as `column 2`.
"""

import csv
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType
from typing import BinaryIO

from contextopt.engine.text.lexical import without_accents
from contextopt.inputs import has_surrogate, read_digits
from contextopt.spaces.importing.charsets import WINDOWS_NOTICE, LineDecoder
from contextopt.spaces.importing.rows import (
    LEFT_OUT,
    LINE_MAX_BYTES,
    Found,
    Lines,
    Notice,
    RawRow,
    Rejection,
    UnusableSource,
)
from contextopt.spaces.inputs import RecordIn
from contextopt.strictjson import DuplicateKey, read_json

DELIMITERS = ",;\t"
# Above the longest notes, so that their own check refuses them, and an unclosed quote still ends somewhere.
CELL_MAX = 2_000_000
COLUMNS_MAX = 1_000
NAME_SHOWN = 80
_FIELDS = {name.lower(): name for name in RecordIn.model_fields}
AUTHOR = "author"
"""Kept in the metadata, where a question that names a person looks for it."""
# Other names of the fields, in English, Norwegian, German, French, Spanish, Japanese and a few more.
# If several columns could be one field, the name that is earliest here wins.
_OTHER_NAMES = {
    "title": "subject heading headline summary emne tittel overskrift betreff titel überschrift objet "
    "sujet titre asunto título oggetto titolo assunto ämne rubrik onderwerp 件名 題名 タイトル 标题 "
    "主题 제목 name navn nom nombre",
    "notes": "text body content message description comment tekst brødtekst melding innhold beskrivelse "
    "notat inhalt nachricht beschreibung bemerkung texte contenu corps texto cuerpo contenido mensaje "
    "descripción testo contenuto innehåll inhoud 本文 内容 メッセージ 説明 正文 본문 내용",
    "date": "created timestamp dato tidspunkt datum zeitpunkt horodatage fecha 日付 日時 年月日 日期 날짜",
    "type": "category kategori kategorie catégorie categoría categoria 種類 分類 カテゴリ 类型 종류",
    "tags": "labels keywords etiketter stikkord schlagwörter stichwörter étiquettes mots-clés etiquetas "
    "タグ 标签 태그",
    "thread": "conversation samtale tråd unterhaltung conversación スレッド 会話",
    AUTHOR: "author sender from forfatter avsender verfasser autor absender auteur expéditeur remitente "
    "autore mittente författare 作成者 作者 著者 差出人 投稿者 发件人 작성자",
}
# The field that each name stands for, and the name's place among those of the field.
_GUESSES = {
    without_accents(name): (target, place)
    for target, names in _OTHER_NAMES.items()
    for place, name in enumerate(names.split())
}
# Where a column has gaps, some programs write its whole numbers with decimals.
_WHOLE = re.compile(r"(-?\d{1,18})[.,]0{1,6}")
NO_COLUMNS: Mapping[str, str] = MappingProxyType({})


# Some spreadsheets write the delimiter before the header, and remove this line when they open the file.
_DELIMITER_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)


def table_header(stream: BinaryIO) -> list[str]:
    """Return the names in a table's header, without those of columns that have none."""
    lines = Lines(stream)
    decoder = LineDecoder()
    texts = (decoder.decode(line) for line in lines)
    header, delimiter = _header_line(texts)
    cells = next(StrictReader(chain([header], texts), delimiter, lines), [])
    return list(dict.fromkeys(cell.strip() for cell in cells if cell.strip()))[:COLUMNS_MAX]


def _header_line(texts: Iterator[str]) -> tuple[str, str]:
    """Return the first line of a table that is not blank, and the delimiter of its cells."""
    header = next((text for text in texts if not text.isspace()), "")
    if found := _DELIMITER_LINE.fullmatch(header):
        return next((text for text in texts if not text.isspace()), ""), found[1]
    # In many countries, spreadsheets use semicolons.
    return header, max(DELIMITERS, key=header.count)


def read_table(lines: Lines, file: str, columns: Mapping[str, str] = NO_COLUMNS) -> Iterator[Found]:
    """Yield each row with the line it starts at. A quoted cell may hold line breaks.

    `columns` names the fields of columns; see `ReadOptions`.

    Raises:
        UnusableSource: the header is neither UTF-8 nor CSV, names no field or a column twice, or has too many
            columns.
    """
    # The limit is process-wide. Its default of 128 KiB is less than the longest notes.
    csv.field_size_limit(max(csv.field_size_limit(), CELL_MAX))
    decoder = LineDecoder()
    source = (decoder.decode(line) for line in lines)
    header_line, delimiter = _header_line(source)
    header_number = lines.number
    reader = StrictReader(chain([header_line], source), delimiter, lines)
    if has_surrogate(header_line):
        raise UnusableSource(
            f"line {header_number} is not UTF-8: name the file's encoding or save it as UTF-8"
        )
    try:
        header = next(reader, [])
    except csv.Error as error:
        raise UnusableSource(f"line {header_number}: the header is not CSV: {error}") from error
    names = _header(header, columns)
    for name, target in zip(header, names, strict=True):
        if target == LEFT_OUT:
            yield Notice(header_number, f"the column {name.strip()[:NAME_SHOWN]!r} was left out", file)
        elif target and name.strip() not in columns and target.lower() != name.strip().lower():
            yield Notice(
                header_number, f"the column {name.strip()[:NAME_SHOWN]!r} was read as {target}", file
            )
    yield from _rows(reader, names, lines, file)
    if decoder.is_windows:
        yield Notice(0, WINDOWS_NOTICE, file)


def _rows(reader: Iterator[list[str]], names: list[str], lines: Lines, file: str) -> Iterator[Found]:
    while True:
        before = lines.number
        found = _next_row(reader, names, lines, file)
        if found is None:
            return
        found = _refuse_overlong(found, lines, before)
        # Spreadsheets end their files with rows of empty cells.
        if isinstance(found, Rejection) or found.fields:
            yield found


class StrictReader:
    """Iterate over rows of cells. Invalid CSV raises `csv.Error` with a message for the file's author.

    Parsing is strict; otherwise an unclosed quote would silently take the rows below it into its cell.
    """

    def __init__(self, texts: Iterator[str], delimiter: str, lines: Lines) -> None:
        self.lines = lines
        self.delimiter = delimiter
        self._row: list[str] = []
        self._cells = csv.reader(self._keep(texts), delimiter=delimiter, strict=True)

    def __iter__(self) -> "StrictReader":
        return self

    def __next__(self) -> list[str]:
        self._row.clear()
        try:
            return next(self._cells)
        except csv.Error as error:
            raise csv.Error(self._explain(str(error))) from error

    def _keep(self, texts: Iterator[str]) -> Iterator[str]:
        for text in texts:
            self._row.append(text)
            yield text

    def _explain(self, message: str) -> str:
        if "new-line character" in message:
            return "a lone carriage return outside quotes"
        if "field limit" in message:
            return f"a cell is longer than {csv.field_size_limit():,} characters; is its quote never closed?"
        if "unexpected end" in message:
            *_, last_cell = next(csv.reader(self._row, delimiter=self.delimiter))
            first_line = self.lines.number - last_cell.removesuffix("\n").count("\n")
            return f"the quote that opens in line {first_line} is never closed"
        return message


def _header(cells: list[str], columns: Mapping[str, str]) -> list[str]:
    """Return the field of each column, its own name for the metadata, `LEFT_OUT`, or "" without a name."""
    cells = [cell.strip() for cell in cells]
    guessed = guess_fields([name for name in cells if name not in columns], taken=columns.values())
    names = [guessed.get(name) or field_of(name, columns) for name in cells]
    counts = Counter(name for name in names if name not in ("", LEFT_OUT))
    if counts.total() > COLUMNS_MAX:
        raise UnusableSource(
            f"the header must name at most {COLUMNS_MAX:,} columns, it names {counts.total():,}"
        )
    if counts and not columns and not counts.keys() & _FIELDS.keys():
        raise UnusableSource(
            "this is not JSONL, and as CSV its header names no field of a record, such as title and notes"
        )
    for name, count in counts.items():
        if count > 1 or _is_an_unnamed(name, names):
            raise UnusableSource(f"the header names the column {name!r} twice")
    return names


def guess_fields(names: Iterable[str], taken: Collection[str] = ()) -> dict[str, str]:
    """Return the field of each column whose name says it in one of many languages, one column for a field.

    Columns with the name of a field have it anyway. Fields that are `taken` get no other column.
    """
    names = list(names)
    taken = {*taken, *(_FIELDS[name.lower()] for name in names if name.lower() in _FIELDS)}
    found: dict[str, tuple[int, str]] = {}
    for name in names:
        target, rank = _GUESSES.get(without_accents(name.lower()), ("", 0))
        if target and name.lower() not in _FIELDS and target not in taken:
            found[target] = min(found.get(target, (rank, name)), (rank, name))
    return {name: target for target, (_, name) in found.items()}


def field_of(name: str, columns: Mapping[str, str]) -> str:
    """Return what a column becomes: a field, its own name for the metadata, or `LEFT_OUT`."""
    target = columns.get(name)
    if target is None:
        return _FIELDS.get(name.lower(), name)
    if target == "metadata" and name.lower() != "metadata":
        # Under its own name, a value goes to the metadata.
        return f"{name} column" if name.lower() in _FIELDS else name
    return target


def _column_name(number: int) -> str:
    """Name a column that the header leaves empty; `number` counts from 1."""
    return f"column {number}"


def _is_an_unnamed(name: str, names: Sequence[str]) -> bool:
    """Tell whether a header's name is the one that a column with an empty header gets."""
    number = read_digits(name.removeprefix("column ")) or 0
    return 1 <= number <= len(names) and not names[number - 1] and name == _column_name(number)


def _next_row(
    reader: Iterator[list[str]], names: list[str], lines: Lines, file: str
) -> RawRow | Rejection | None:
    start = lines.number + 1
    try:
        cells = next(reader)
    except StopIteration:
        return None
    except csv.Error as error:
        return Rejection(start, "row", f"is not CSV: {error}", file)
    if len(cells) > len(names):
        return Rejection(start, "row", f"has {len(cells)} cells instead of {len(names)}", file)
    return _read_cells(names, cells, start, file)


def _refuse_overlong(found: RawRow | Rejection, lines: Lines, before: int) -> RawRow | Rejection:
    """Refuse a row that contains a line over the limit, because that line's text is missing."""
    if lines.overlong is None or lines.overlong <= before:
        return found
    error = f"line {lines.overlong} is longer than {LINE_MAX_BYTES:,} bytes"
    return Rejection(before + 1, "row", error, found.file)


def _read_cells(names: Sequence[str], cells: Sequence[str], line: int, file: str) -> RawRow | Rejection:
    named = {name: cell for name, cell in zip(names, cells, strict=False) if name and cell != ""}
    named.pop(LEFT_OUT, None)
    unnamed = _read_unnamed(names, cells)
    if len(unnamed) > COLUMNS_MAX:
        return Rejection(line, "row", f"has values in more than {COLUMNS_MAX:,} columns without a name", file)
    fields: dict[str, object] = {**named, **unnamed}
    if whole := _WHOLE.fullmatch(named.get("position", "")):
        fields["position"] = whole[1]
    if tags := named.get("tags", "").strip():
        fields["tags"] = split_tags(tags)
    if "metadata" in named:
        try:
            fields["metadata"] = read_json(named["metadata"])
        except DuplicateKey as error:
            return Rejection(line, "metadata", str(error), file)
        except (ValueError, RecursionError):
            return Rejection(line, "metadata", "must be a JSON object", file)
    return RawRow(line, fields, sum(map(len, cells)), file)


def _read_unnamed(names: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    """Return the values below empty headers, at most one more than a row may have."""
    if "" not in names:
        return {}
    columns = enumerate(zip(names, cells, strict=False), start=1)
    found = ((number, cell) for number, (name, cell) in columns if not name and cell.strip())
    return {_column_name(number): cell for number, cell in islice(found, COLUMNS_MAX + 1)}


def split_tags(text: str) -> list[object]:
    """Read a JSON list, or texts separated by semicolons, or else by commas."""
    if text.startswith("["):
        try:
            value = read_json(text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, list):
            return value
    separator = ";" if ";" in text else ","
    return [tag.strip() for tag in text.split(separator) if tag.strip()]
