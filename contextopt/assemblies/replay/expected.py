"""Finds a record that is expected in a context, by its id or by its source and external id."""

from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet

from contextopt.assemblies.models import Assembly
from contextopt.errors import InvalidInput, NotFound
from contextopt.inputs import read_digits
from contextopt.spaces.models import EXTERNAL_ID_MAX, SOURCE_MAX, Record
from contextopt.spaces.records import split_identity

EXPECTED_CHARS = SOURCE_MAX + EXTERNAL_ID_MAX + 1


def find_expected(assembly: Assembly, expected: str, records: QuerySet[Record], *, field: str) -> Record:
    """Return one of the `records` by its id, or a record of the assembly's space by SOURCE:EXTERNAL_ID.

    Raises:
        NotFound: no record has this id, or this source and external id.
        InvalidInput: several records match, or the text has neither form; the error names `field`.
    """
    if expected.isascii() and expected.isdigit():
        found = records.filter(pk=read_digits(expected) or 0).first()
        if found is None:
            raise NotFound(f"There is no record {expected[:40]}.")
        return found
    if ":" not in expected:
        raise InvalidInput.of(field, "give a record's ID, or SOURCE:EXTERNAL_ID")
    matches = list(records.filter(_by_identity(expected), space=assembly.space_id).order_by("pk")[:3])
    if not matches:
        raise NotFound(f"There is no record {expected[:80]!r} in the space of this context.")
    if len(matches) > 1:
        named = ", ".join(f"{one.pk} ({one.source!r}, {one.external_id!r})" for one in matches)
        raise InvalidInput.of(field, f"names more than one record; give the ID: {named}"[:400])
    return matches[0]


def _by_identity(text: str) -> Q:
    pairs = (Q(source=source, external_id=external_id) for source, external_id in split_identity(text))
    return reduce(or_, pairs, Q(pk__in=()))
