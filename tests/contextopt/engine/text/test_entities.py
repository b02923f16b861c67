import pytest

from contextopt.engine.text.entities import find_entities


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Fix#6855 in the parser", ["#6855"]),
        (f"write to {'a' * 64}@example.org", [f"{'a' * 64}@example.org"]),
        (f"write to b{'a' * 64}@example.org", [f"{'a' * 64}@example.org"]),
        ("#12--me@example.org", ["#12", "--me@example.org"]),
        ("见 parse_date() 和 v1.2", ["parse_date()", "v1.2"]),
        ("plain words without any", []),
    ],
)
def test_names_begin_at_words_and_in_few_places_within(text: str, names: list[str]) -> None:
    assert [entity.text for entity in find_entities(text)] == names
