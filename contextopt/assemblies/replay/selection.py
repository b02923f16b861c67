"""Selects logged contexts to replay, and reads them with everything that a replay needs."""

from collections.abc import Iterator, Sequence

from contextopt.assemblies.models import Assembly, Kind

CHUNK = 200


def last_contexts(team_id: int, last: int) -> list[int]:
    """Return the ids of the team's last contexts of spaces, newest first."""
    contexts = Assembly.objects.filter(team_id=team_id, kind=Kind.SPACE, space__isnull=False)
    return list(contexts.newest_first().values_list("pk", flat=True)[:last])


def read_contexts(team_id: int, ids: Sequence[int]) -> Iterator[Assembly]:
    """Yield the team's assemblies in the order of `ids`, without those deleted in the meantime."""
    rows = Assembly.objects.filter(team_id=team_id).for_replay()
    for start in range(0, len(ids), CHUNK):
        chunk = ids[start : start + CHUNK]
        found = rows.in_bulk(chunk)
        yield from (found[one] for one in chunk if one in found)
