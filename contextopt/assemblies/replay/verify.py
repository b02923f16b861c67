"""Compares the last logged contexts with their replays, as proof."""

from collections.abc import Iterator

from contextopt.assemblies.replay.replay import Replay, replay_assembly
from contextopt.assemblies.replay.selection import last_contexts, read_contexts
from contextopt.assemblies.verify import Difference


def replay_last(team_id: int, last: int) -> Iterator[Replay]:
    """Yield the replays of the team's last contexts of spaces, newest first, under their own settings."""
    yield from map(replay_assembly, read_contexts(team_id, last_contexts(team_id, last)))


def differences_of(again: Replay) -> Iterator[Difference]:
    """Yield the logged figures that the replay computes differently; none if it could not be replayed."""
    if again.result is None:
        return
    pairs: dict[str, tuple[object, object]] = {
        "sha256": (again.assembly.sha256, again.result.certificate.sha256),
        "tokens": (again.assembly.tokens_after, again.result.certificate.total_tokens),
    }
    for name in again.differences:
        yield Difference(name, *pairs.get(name, ("as logged", "something else")))
