"""Finds the records that a question names as its answers."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from contextopt.errors import FieldProblem, InvalidInput
from contextopt.models import Record, Space
from contextopt.spaces.records import split_identity
from memory.questions.models import ExpectedRecord

SHOWN = 3


class ExpectedRecords:
    """The records of a space that some questions name, read in two queries."""

    def __init__(self, space: Space, names: Collection[str], ids: Collection[int]) -> None:
        rows = Record.objects.filter(space=space, purged_at=None)
        wanted = {part for name in names for part in _possible_ids(name)}
        found = rows.filter(external_id__in=wanted).exclude(external_id="")
        self._by_name: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for external_id, source, pk in found.values_list("external_id", "source", "pk"):
            self._by_name[external_id].append((source, pk))
        known = rows.filter(pk__in=list(ids)) if ids else Record.objects.none()
        self._ids = set(known.values_list("pk", flat=True))

    def resolve(self, names: Sequence[str], ids: Sequence[int]) -> list[int]:
        """Return the ids of the named records, each once.

        Raises:
            InvalidInput: a name stands for no record, or for several.
        """
        found, problems = list(ids), []
        for name in names:
            matches = self._find(name)
            if len(matches) == 1:
                found += matches
            else:
                problems.append(_explain(name, len(matches)))
        faults = [FieldProblem("expected", _list(problems))] if problems else []
        if strange := sorted(set(ids) - self._ids):
            faults.append(FieldProblem("record_ids", f"record {strange[0]} is not in this space"))
        if faults:
            raise InvalidInput(faults)
        return list(dict.fromkeys(found))

    def _find(self, name: str) -> list[int]:
        """Return the records with this external id, or else with this source and external id."""
        if exact := [pk for _, pk in self._by_name.get(name, ())]:
            return exact
        return [
            pk
            for source, external_id in split_identity(name)
            for known, pk in self._by_name.get(external_id, ())
            if known == source
        ]


def _possible_ids(name: str) -> Iterator[str]:
    yield name
    for _, external_id in split_identity(name):
        yield external_id


def _explain(name: str, matches: int) -> str:
    if matches:
        return f"{name[:80]!r} names {matches} records; write SOURCE:EXTERNAL_ID"
    return f"no record of this space has the external ID {name[:80]!r}"


def _list(problems: list[str]) -> str:
    more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    return "; ".join(problems[:SHOWN]) + more


def store_expected(question_id: int, record_ids: Iterable[int]) -> None:
    """Make these the records that a question expects."""
    wanted = set(record_ids)
    rows = ExpectedRecord.objects.filter(question_id=question_id)
    rows.exclude(record_id__in=wanted).delete()
    known = set(rows.values_list("record_id", flat=True))
    ExpectedRecord.objects.bulk_create(
        ExpectedRecord(question_id=question_id, record_id=pk) for pk in sorted(wanted - known)
    )
