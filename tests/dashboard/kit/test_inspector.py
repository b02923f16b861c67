"""The ledger's rows as the Inspector shows them."""

from contextopt.assemblies.models import EntryJson
from dashboard.kit.inspector import read_ledger

CONFIG = {
    "recency_weight": "0.7", "frequency_weight": "0.3", "semantic_weight": "9", "lexical_weight": "4",
    "neighbour_share": "0.4", "date_weight": "3", "who_weight": "4",
}  # fmt: skip


def test_weights_that_are_no_settings_say_where_they_come_from() -> None:
    entry: EntryJson = {
        "id": 1, "source": "", "external_id": "", "score": 207.0, "tokens": 9, "pinned": False, "kept": True,
        "reason": "", "duplicate_of": None,
        "parts": {"semantic": 3.0, "neighbour": 9.69, "topic": 2.0},
    }  # fmt: skip
    (row,) = read_ledger([entry], (), CONFIG, {})
    included = "the part includes the neighbour share of 0.40"
    matched = "meaning 9.00 + words 4.00"
    assert row.sum == (
        "Meaning: 3.00 of 10 × weight 9.00 = 27.00",
        f"Neighbours: 9.69 of 10 × weight 13.00 ({matched}; {included}) = 125.97",
        f"Topic: 2.00 of 10 × weight 26.00 (5 × neighbour share 0.40 × ({matched})) = 52.00",
    )
