"""Question sets over HTTP."""

from contextopt.spaces.models import Space
from memory.questions.sets import create_set
from tests import factories
from tests.contextopt.api.conftest import Caller


def test_a_bulk_write_reports_in_order_and_names_ignored_fields(writer: Caller, space: Space) -> None:
    factories.make_record(space, external_id="T-1")
    question_set = create_set(space=space, name="Support", actor="test")
    questions = [
        # Found while writing, and so after the other fault.
        {"query": "Which one?", "expected": ["T-0"]},
        {"query": "", "expected": ["T-1"]},
        {"query": "Who?", "expected": ["T-1"], "category": 2},
    ]
    answer = writer.post(f"/question-sets/{question_set.pk}/questions/bulk", {"questions": questions}).json()
    assert (answer["created"], answer["ignored"]) == (1, ["category"])
    assert [(row["line"], row["field"]) for row in answer["rejected"]] == [(1, "expected"), (2, "query")]
