from contextopt.spaces.models import Record
from dashboard.pages.spaces.records import LINES_SHOWN, compare
from tests.factories import NOW


def state(**fields: object) -> Record:
    return Record(**{"date": NOW, **fields})


def test_equal_states_have_no_changes() -> None:
    change = compare(state(title="a", notes="x"), state(title="a", notes="x", view_count=7))
    assert (change.fields, change.notes) == ((), ())


def test_fields_and_lines() -> None:
    change = compare(state(title="a", notes="x\ny"), state(title="b", notes="x\nz"))
    assert [(field.field, field.before, field.after) for field in change.fields] == [("title", "a", "b")]
    lines = [(line.mark, line.text) for line in change.notes]
    assert lines == [("same", "x"), ("removed", "y"), ("added", "z")]


def test_long_changes_are_cut_and_say_so() -> None:
    change = compare(state(notes=""), state(notes="\n".join(map(str, range(500)))))
    assert len(change.notes) == LINES_SHOWN
    assert change.is_cut
