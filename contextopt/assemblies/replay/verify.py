"""Compares the last logged contexts with their replays, as proof."""

from collections.abc import Iterator

from contextopt.assemblies.models import Assembly, Kind
from contextopt.assemblies.replay.replay import Replay, replay_assembly
from contextopt.assemblies.verify import Difference

CHUNK = 200


def replay_last(team_id: int, last: int) -> Iterator[Replay]:
    """Yield the replays of the team's last contexts of spaces, newest first, under their own settings."""
    contexts = Assembly.objects.filter(team_id=team_id, kind=Kind.SPACE, space__isnull=False)
    ids = list(contexts.newest_first().values_list("pk", flat=True)[:last])
    rows = Assembly.objects.select_related("payload", "space", "config", "team")
    for start in range(0, len(ids), CHUNK):
        found = rows.in_bulk(ids[start : start + CHUNK])
        yield from (replay_assembly(found[one]) for one in ids[start : start + CHUNK] if one in found)


def differences_of(again: Replay) -> Iterator[Difference]:
    """Yield the logged figures that the replay gives otherwise; none if it could not be replayed."""
    if again.result is None:
        return
    pairs: dict[str, tuple[object, object]] = {
        "sha256": (again.assembly.sha256, again.result.certificate.sha256),
        "tokens": (again.assembly.tokens_after, again.result.certificate.total_tokens),
    }
    for name in again.differences:
        yield Difference(name, *pairs.get(name, ("as logged", "something else")))
