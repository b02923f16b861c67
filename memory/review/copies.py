"""Compares what votes and review items copied from their assembly with the assembly, as proof."""

from collections.abc import Iterator

from contextopt.assemblies.verify import Difference
from memory.feedback.models import Vote
from memory.review.models import ReviewItem

CHUNK = 2_000
_COPIES = {
    "team_id": "assembly__team_id",
    "space_id": "assembly__space_id",
    "stage": "assembly__stage",
    "config_version": "assembly__config__version",
}
_SUBJECTS = (("vote", Vote, _COPIES | {"phase": "assembly__phase"}), ("review item", ReviewItem, _COPIES))


def verify_copies(team_id: int) -> Iterator[tuple[str, int, Difference]]:
    """Yield the kind and id of each vote and review item with a copy that differs, and how."""
    for subject, model, copies in _SUBJECTS:
        rows = model._default_manager.filter(team_id=team_id).order_by("pk")
        for pk, *values in rows.values_list("pk", *copies, *copies.values()).iterator(CHUNK):
            for name, stored, found in zip(copies, values, values[len(copies) :], strict=False):
                if stored != found:
                    yield subject, pk, Difference(name, stored, found)


def count_copies(team_id: int) -> int:
    return sum(model._default_manager.filter(team_id=team_id).count() for _, model, _ in _SUBJECTS)
