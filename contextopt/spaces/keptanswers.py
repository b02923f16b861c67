"""Answers that are kept for repeated writes: which records they name, and how a purge erases those."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import Q
from pydantic_core import from_json, to_json

from contextopt.people.models import StoredResponse
from contextopt.spaces.models import PURGED, Record

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)")


def named_records(body: bytes) -> list[int]:
    """Return the ids of the records that an answer shows or lists; all its objects for one say both names."""
    if b'"external_id"' not in body:
        return []
    return sorted(set(_find_ids(from_json(body))))


def _find_ids(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        # Tasks have no source, and memories no external id.
        if "source" in value and isinstance(value.get("external_id"), str):
            yield value["id"]
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _find_ids(inner)


def erase_named(records: Sequence[Record]) -> int:
    """Erase the texts of kept answers that name one of the records; return how many there were.

    Status, address and numbers stay, so that a repeated write is still known and done once. Which records an
    answer names that was kept by the version before is not known: all of the team's are erased.
    """
    teams = {record.space.team_id for record in records}
    named = Q(record_ids__overlap=[record.pk for record in records])
    unknown = Q(record_ids=None, api_key__team__in=teams)
    held = StoredResponse.objects.select_for_update(of=("self",), no_key=True).filter(named | unknown)
    return sum(map(_erase, held.order_by("pk").iterator(chunk_size=100)))


def _erase(answer: StoredResponse) -> bool:
    body = bytes(answer.body)
    answer.body = to_json(erase_texts(from_json(body))) if body else body
    # Nothing is left that names a record, so the next purge passes it over.
    answer.record_ids = []
    answer.save(update_fields=["body", "record_ids"])
    return bool(body)


def erase_texts(value: Any) -> Any:
    """Return JSON with its moments, numbers and names of fields; every other text says `[purged]`."""
    match value:
        case dict():
            # The names in metadata are the caller's own words.
            return {name: {} if name == "metadata" else erase_texts(inner) for name, inner in value.items()}
        case list():
            return [erase_texts(inner) for inner in value]
        case str() if not MOMENT.fullmatch(value):
            return PURGED
    return value
