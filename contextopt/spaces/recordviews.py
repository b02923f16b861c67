"""Counts views of records: once per viewer, record and day in the team's time zone."""

from datetime import timedelta
from zoneinfo import ZoneInfo

from django.utils import timezone

from contextopt.spaces.models import VIEWS_MAX, Record, RecordView
from contextopt.sql import fetch_one

# A day in a team's time zone may end 12 hours after the UTC day.
DAYS_KEPT = timedelta(days=1)

# One statement stores the view and counts it, so concurrent views are all counted, each viewer once.
_COUNT_VIEW = """
WITH opened AS (
    INSERT INTO contextopt_recordview (record_id, viewer, day)
    SELECT id, %s::text, %s::date FROM contextopt_record WHERE id = %s AND deleted_at IS NULL
        ON CONFLICT (record_id, viewer, day) DO NOTHING
 RETURNING record_id
)
UPDATE contextopt_record r SET view_count = least(r.view_count, %s - 1) + 1, last_viewed_at = %s
  FROM opened WHERE r.id = opened.record_id
RETURNING r.view_count, r.last_viewed_at
"""


def view_record(*, record: Record, viewer: str) -> Record:
    """Count the viewer's first view of the record on the team's current day, unless the record is deleted.

    `viewer` tells people and keys apart, such as `user:17` and `key:4`.
    """
    now = timezone.now()
    day = timezone.localdate(now, ZoneInfo(record.space.team.time_zone))
    if counted := fetch_one(_COUNT_VIEW, [viewer, day, record.pk, VIEWS_MAX, now]):
        record.view_count, record.last_viewed_at = counted
    return record


def forget_views() -> None:
    """Delete views of days that are over in every time zone. The counts stay."""
    over = timezone.now().date() - DAYS_KEPT
    RecordView.objects.filter(day__lt=over).delete()
