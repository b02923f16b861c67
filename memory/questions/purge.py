"""Erases what evaluations keep of a record that was purged."""

from contextopt.models import Record
from memory.questions.models import EvaluatedQuestion


def erase_from_evaluations(record: Record) -> int:
    """Update the record's external id in stored outcomes; return how many questions had it."""
    entry = {"id": record.pk}
    rows = EvaluatedQuestion.objects.filter(
        evaluation__question_set__space=record.space_id, outcomes__contains=[entry]
    ).exclude(outcomes__contains=[{**entry, "external_id": record.external_id}])
    changed = list(rows.select_for_update(of=("self",), no_key=True).order_by("pk"))
    for row in changed:
        for outcome in row.outcomes:
            if outcome["id"] == record.pk:
                outcome["external_id"] = record.external_id
    return EvaluatedQuestion.objects.bulk_update(changed, ["outcomes"], batch_size=500)
