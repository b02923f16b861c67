import json

import pytest
from contextopt_connect import jsontext
from contextopt_connect.jsontext import UnreadableJson
from hypothesis import given
from hypothesis import strategies as st

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(st.text(), values, max_size=4)
layouts = st.sampled_from([None, 0, 2, 4, "\t"])


@given(values, layouts)
def test_it_reads_what_json_reads(value: object, indent: int | str | None) -> None:
    text = json.dumps(value, indent=indent)
    assert json.dumps(jsontext.parse(text).value) == json.dumps(value)


@given(objects, layouts, values, st.text(), st.booleans())
def test_a_member_is_added_and_removed_again(
    value: dict[str, object], indent: int | str | None, new: object, name: str, ensure_ascii: bool
) -> None:
    value.pop(name, None)
    text = json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)
    grown = jsontext.set_member(text, [name], new)
    assert json.loads(grown) == {**value, name: new}
    assert list(json.loads(grown)) == [*value, name]
    if value:
        assert grown.startswith(text.rstrip("\n} \t"))
        assert jsontext.remove_member(grown, [name]) == text


@given(st.lists(values, max_size=4), layouts, values)
def test_an_item_is_added_and_removed_again(
    items: list[object], indent: int | str | None, new: object
) -> None:
    text = json.dumps({"a": {"b": items}}, indent=indent)
    grown = jsontext.add_item(text, ["a", "b"], new)
    assert json.loads(grown) == {"a": {"b": [*items, new]}}
    rest = jsontext.remove_item(grown, ["a", "b"], new)
    assert rest is not None and json.loads(rest) == {"a": {"b": items}}


COMMENTED = """{
  // the servers
  "mcpServers": {
    "other": {"command": "x"}, // theirs, kept
    /* no more, for now */
  },
}
"""


def test_comments_and_trailing_commas_stay() -> None:
    grown = jsontext.set_member(COMMENTED, ["mcpServers", "ours"], {"url": "u"})
    assert grown == COMMENTED.replace(
        "// theirs, kept\n", '// theirs, kept\n    "ours": {\n      "url": "u"\n    },\n'
    )
    assert jsontext.remove_member(grown, ["mcpServers", "ours"]) == COMMENTED


def test_missing_objects_are_created_and_line_ends_kept() -> None:
    text = '{\r\n\t"a": 1\r\n}\r\n'
    grown = jsontext.add_item(text, ["hooks", "Stop"], {"command": "x"})
    assert grown.count("\n") == grown.count("\r\n")
    assert grown.startswith('{\r\n\t"a": 1,\r\n\t"hooks": {\r\n\t\t"Stop": [')
    assert json.loads(grown) == {"a": 1, "hooks": {"Stop": [{"command": "x"}]}}


@pytest.mark.parametrize(
    "text", ["{", '{"a" 1}', '{"a": 1 "b": 2}', "{a: 1}", '{"a": tru}', "{} {}", "", "[1,", '{"a": "\n"}']
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(UnreadableJson, match="is not valid JSON"):
        jsontext.parse(text)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(UnreadableJson, match="nested too deeply"):
        jsontext.parse("[" * 5_000 + "]" * 5_000)


@pytest.mark.parametrize("text", ['{"hooks": []}', '{"hooks": {"Stop": {}}}', "[]", '"x"'])
def test_something_else_in_our_place_is_refused(text: str) -> None:
    with pytest.raises(UnreadableJson):
        jsontext.add_item(text, ["hooks", "Stop"], 1)
