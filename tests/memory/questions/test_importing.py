import json
from typing import Any

import pytest

from contextopt.spaces.importing.pipeline import ImportReport
from contextopt.spaces.importing.rows import RawRow
from contextopt.spaces.models import Record, Space
from memory.questions.importing import import_questions
from memory.questions.models import QuestionSet
from memory.questions.sets import create_set
from tests import factories

LINE = {"id": "a", "query": "Which pet?", "expected": ["D1:1"], "answer": "A cat"}


@pytest.fixture
def empty_set(space: Space) -> QuestionSet:
    factories.make_record(space, source="dialogue", external_id="D1:1")
    factories.make_record(space, source="dialogue", external_id="D1:2")
    return create_set(space=space, name="Talk", actor="test")


def load(question_set: QuestionSet, *lines: dict[str, Any]) -> ImportReport:
    report = ImportReport()
    rows = [RawRow(number, dict(line), 10) for number, line in enumerate(lines, start=1)]
    import_questions(question_set=question_set, rows=rows, actor="test", report=report)
    return report


def rejected(report: ImportReport) -> list[tuple[int, str]]:
    return [(each.line, each.field) for each in report.rejected]


def test_importing_twice_changes_nothing(empty_set) -> None:
    assert load(empty_set, LINE, {**LINE, "id": 2}).created == 2
    again = load(empty_set, LINE, {**LINE, "id": 2})
    assert (again.unchanged, again.created, again.updated) == (2, 0, 0)
    question = empty_set.questions.get(external_id="a")
    assert (question.text, question.answer) == ("Which pet?", "A cat")
    assert [record.external_id for record in question.records.all()] == ["D1:1"]


def test_rejections_are_in_the_order_of_the_lines(empty_set) -> None:
    unknown = {"id": "b", "query": "Who?", "expected": ["nothing"]}
    report = load(empty_set, LINE, unknown, {"id": "c"}, {**unknown, "id": "d"}, {**LINE, "query": "Other?"})
    assert rejected(report) == [(2, "expected"), (3, "query"), (4, "expected"), (5, "id")]


def test_a_changed_line_updates_its_question(empty_set) -> None:
    load(empty_set, LINE)
    before = empty_set.changed_at
    report = load(empty_set, {**LINE, "expected": ["D1:1", "D1:2"], "as_of": "2026-05-08"})
    assert report.updated == 1
    question = empty_set.questions.get()
    assert question.records.count() == 2
    assert question.as_of.day == 8
    empty_set.refresh_from_db()
    assert empty_set.changed_at > before


def test_a_line_without_an_id_is_known_by_its_text(empty_set) -> None:
    line = {"query": "Which pet?", "expected": ["D1:1"]}
    assert load(empty_set, line, line).created == 1
    assert load(empty_set, line).unchanged == 1


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({"id": "b", "expected": ["D1:1"]}, "query"),
        ({"id": "b", "query": " ", "expected": ["D1:1"]}, "query"),
        ({"id": "b", "query": "Who?"}, "expected"),
        ({"id": "b", "query": "Who?", "expected": []}, "expected"),
        ({"id": "b", "query": "Who?", "expected": "D1:1"}, "expected"),
        ({"id": "b", "query": "Who?", "expected": ["D1:1", "D9:9"]}, "expected"),
        ({"id": "b", "query": "Who?", "record_ids": [10**12]}, "record_ids"),
        ({"id": "b", "query": "Who?", "expected": ["D1:1"], "as_of": "soon"}, "as_of"),
        ({"id": ["b"], "query": "Who?", "expected": ["D1:1"]}, "id"),
        ({"id": "a", "query": "Another?", "expected": ["D1:1"]}, "id"),
    ],
)
def test_a_faulty_line_is_named_and_the_rest_is_imported(empty_set, line, field) -> None:
    report = load(empty_set, LINE, line)
    assert rejected(report) == [(2, field)]
    assert report.created == 1


def test_an_id_of_several_sources_needs_its_source(empty_set, space) -> None:
    other = factories.make_record(space, source="mail:in", external_id="D1:1")
    report = load(empty_set, LINE, {**LINE, "id": "c", "expected": ["mail:in:D1:1"]})
    assert rejected(report) == [(1, "expected")]
    assert "SOURCE:EXTERNAL_ID" in report.rejected[0].error
    assert list(empty_set.questions.get(external_id="c").records.all()) == [other]


def test_records_of_another_space_are_unknown(empty_set, team) -> None:
    elsewhere = factories.make_record(factories.make_space(team, "other"), external_id="X1")
    lines = ({**LINE, "expected": ["X1"]}, {"id": "b", "query": "Who?", "record_ids": [elsewhere.pk]})
    assert rejected(load(empty_set, *lines)) == [(1, "expected"), (2, "record_ids")]


def test_null_means_not_given_and_other_fields_are_named(empty_set) -> None:
    report = ImportReport()
    line = {**LINE, "answer": None, "as_of": None, "category": 2}
    rows = [RawRow(1, json.loads(json.dumps(line)), 10)]
    ignored = import_questions(question_set=empty_set, rows=rows, actor="test", report=report)
    assert (report.created, ignored) == (1, {"category"})


def test_a_purged_record_answers_nothing(empty_set) -> None:
    Record.objects.filter(external_id="D1:1").update(purged_at=factories.NOW)
    assert rejected(load(empty_set, LINE)) == [(1, "expected")]


def test_an_id_is_never_mistaken_for_the_text_of_another_question(empty_set) -> None:
    untitled = {name: value for name, value in LINE.items() if name != "id"}
    assert load(empty_set, {**LINE, "id": "text:Which pet?", "query": "Whose pet?"}, untitled).created == 2
