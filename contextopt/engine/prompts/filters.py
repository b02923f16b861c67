"""Choose the records that may be candidates."""

from typing import NamedTuple

from contextopt.engine.prompts.values import ContextFilters, RecordSummary


class FilterResult(NamedTuple):
    """The candidates, in the order given, and the number filtered out for each cause."""

    kept: tuple[RecordSummary, ...]
    outside_window: int
    deleted: int


def filter_records(records: tuple[RecordSummary, ...], filters: ContextFilters) -> FilterResult:
    """Keep records that are live and inside the window. A pinned record always passes."""
    present = [record for record in records if filters.include_deleted or not record.deleted]
    kept = tuple(record for record in present if record.pinned or record.date in filters.date_range)
    return FilterResult(kept, len(present) - len(kept), len(records) - len(present))
