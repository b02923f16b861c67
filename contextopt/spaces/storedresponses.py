"""Finds the records that stored responses to repeatable writes name, and erases them in a purge."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import Q
from pydantic_core import from_json, to_json

from contextopt.people.models import StoredResponse
from contextopt.spaces.models import PURGED, Record

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)")


def named_records(body: bytes) -> list[int]:
    """Return the ids of the records in a response. Every JSON form of a record has both field names."""
    if b'"external_id"' not in body:
        return []
    return sorted(set(_find_ids(from_json(body))))


def _find_ids(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        # Tasks have no source, and memories no external id. A finding's content may have any fields.
        is_record = "source" in value and isinstance(value.get("external_id"), str)
        if is_record and type(value.get("id")) is int:
            yield value["id"]
        # The fields in metadata are the caller's own.
        value = [inner for name, inner in value.items() if name != "metadata"]
    if isinstance(value, list):
        for inner in value:
            yield from _find_ids(inner)


def erase_named(records: Sequence[Record]) -> int:
    """Erase the texts of stored responses that name one of the records; return how many had a body.

    Status, address and numbers stay, so a repeated write is still recognised and done once. Responses stored
    by the previous version don't say which records they name, so all of the team's are erased.
    """
    teams = {record.space.team_id for record in records}
    named = Q(record_ids__overlap=[record.pk for record in records])
    unknown = Q(record_ids=None, api_key__team__in=teams)
    held = StoredResponse.objects.select_for_update(of=("self",), no_key=True).filter(named | unknown)
    return sum(map(_erase, held.order_by("pk").iterator(chunk_size=100)))


def _erase(response: StoredResponse) -> bool:
    body = bytes(response.body)
    response.body = to_json(erase_texts(from_json(body))) if body else body
    # The response no longer names a record, so the next purge can skip it.
    response.record_ids = []
    response.save(update_fields=["body", "record_ids"])
    return bool(body)


def erase_texts(value: Any) -> Any:
    """Return the JSON with its field names, numbers and times; every other text becomes `[purged]`."""
    match value:
        case dict():
            # The names in metadata are the caller's own words.
            return {name: {} if name == "metadata" else erase_texts(inner) for name, inner in value.items()}
        case list():
            return [erase_texts(inner) for inner in value]
        case str() if not MOMENT.fullmatch(value):
            return PURGED
    return value
