"""Finds what stored responses to repeatable writes name, and erases their texts when it is erased."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import batched
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from pydantic_core import from_json, to_json

from contextopt.people.models import StoredResponse
from contextopt.spaces.models import PURGED, Record, Space
from contextopt.sql import fetch_column

# Responses that are erased together.
BATCH = 100
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
    return _erase_all(StoredResponse.objects.filter(named | unknown))


# Records and conversations that are gone were deleted with their space.
_NAMES_GONE = """
EXISTS (SELECT FROM unnest(s.record_ids) AS named(id) LEFT JOIN contextopt_record r ON r.id = named.id
         WHERE r.id IS NULL OR r.space_id = %(space)s)
"""
_OF_SPACE = f"""
SELECT s.id FROM contextopt_storedresponse s JOIN contextopt_apikey k ON k.id = s.api_key_id
 WHERE k.team_id = %(team)s AND s.body <> '' AND (
       s.record_ids IS NULL
       OR position(%(slug)s::bytea in s.body) > 0
       OR starts_with(s.location, %(address)s)
       OR {_NAMES_GONE}
       OR EXISTS (SELECT FROM regexp_matches(
                              convert_from(s.body, 'UTF8'), '"conversation_id": ?([0-9]+)', 'g') AS named(id)
                    LEFT JOIN contextopt_conversation c ON c.id = (named.id)[1]::bigint
                   WHERE c.id IS NULL OR c.space_id = %(space)s))
 ORDER BY s.id
"""
_RECENT_OF_GONE = f"""
SELECT s.id FROM contextopt_storedresponse s
 WHERE s.created_at >= %(since)s AND s.record_ids <> '{{}}' AND {_NAMES_GONE}
 ORDER BY s.id
"""


def erase_about_space(space: Space) -> int:
    """Erase the texts of stored responses that name the space or something in it; return their number."""
    quoted = to_json(space.slug)
    address = f"/api/v1/spaces/{space.slug}/"
    values = {"team": space.team_id, "space": space.pk, "slug": quoted, "address": address}
    return erase_responses(fetch_column(_OF_SPACE, values))


def erase_about_gone_records(since: datetime) -> int:
    """Erase what was stored since then about records whose space is deleted; return the responses' number."""
    return erase_responses(fetch_column(_RECENT_OF_GONE, {"since": since, "space": None}))


def erase_responses(ids: Sequence[int]) -> int:
    """Erase the texts of these responses, a batch at a time; return how many had a body."""
    erased = 0
    for some in batched(ids, BATCH):
        with transaction.atomic():
            erased += _erase_all(StoredResponse.objects.filter(pk__in=some))
    return erased


def _erase_all(found: QuerySet[StoredResponse]) -> int:
    held = found.select_for_update(of=("self",), no_key=True)
    return sum(map(_erase, held.order_by("pk").iterator(chunk_size=BATCH)))


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
            # The names in these are the caller's own words.
            own = ("metadata", "payload")
            return {name: {} if name in own else erase_texts(inner) for name, inner in value.items()}
        case list():
            return [erase_texts(inner) for inner in value]
        case str() if not MOMENT.fullmatch(value):
            return PURGED
    return value
