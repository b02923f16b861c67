"""A question has settings of its own, and every space gets a version of its settings with their defaults.

The versions of before keep what was in force for a question then: their window, record limit and notes.
"""

from typing import ClassVar

import django.core.validators
from django.db import migrations, models

# Rows of settings never change; only this migration may fill its own columns.
FILL = """
ALTER TABLE contextopt_contextconfig DISABLE TRIGGER contextopt_config_immutable;
UPDATE contextopt_contextconfig SET question_window_days = window_days, question_max_records = max_records;
ALTER TABLE contextopt_contextconfig ENABLE TRIGGER contextopt_config_immutable;
"""

# Deferred checks of earlier statements must be done before a table changes again.
PUBLISH = """
WITH previous AS (
    UPDATE contextopt_contextconfig SET is_active = false WHERE is_active RETURNING *
)
INSERT INTO contextopt_contextconfig (
    space_id, version, is_active, window_days, max_records, recency_weight, frequency_weight, system_tokens,
    history_tokens, response_tokens, context_tokens, stage3_context_tokens, total_tokens, encoding,
    record_order, semantic_weight, lexical_weight, neighbour_share, question_window_days,
    question_max_records, question_notes_chars, note, created_by, created_at)
SELECT p.space_id,
       (SELECT max(c.version) + 1 FROM contextopt_contextconfig c WHERE c.space_id = p.space_id),
       true, window_days, max_records, recency_weight, frequency_weight, system_tokens, history_tokens,
       response_tokens, context_tokens, stage3_context_tokens, total_tokens, encoding, record_order,
       semantic_weight, lexical_weight, neighbour_share, NULL, NULL, NULL,
       'Questions look at all records, without a record limit and with whole notes.', 'upgrade', now()
  FROM previous p;
"""

UNPUBLISH = """
DO $$
BEGIN
    IF EXISTS (SELECT FROM contextopt_contextconfig
                WHERE window_days IS NULL OR question_notes_chars IS NULL) THEN
        ALTER TABLE contextopt_contextconfig DISABLE TRIGGER contextopt_config_immutable;
        UPDATE contextopt_contextconfig
           SET window_days = coalesce(window_days, 30), question_notes_chars = coalesce(question_notes_chars, 500);
        ALTER TABLE contextopt_contextconfig ENABLE TRIGGER contextopt_config_immutable;
    END IF;
END $$;
"""


def _limit(high: int) -> models.Field:
    return models.PositiveIntegerField(
        blank=True,
        help_text="Leave empty for all.",
        null=True,
        validators=[
            django.core.validators.MinValueValidator(1),
            django.core.validators.MaxValueValidator(high),
        ],
    )


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0021_warning_codes")]

    operations: ClassVar = [
        migrations.AlterField(
            "contextconfig",
            "window_days",
            models.PositiveSmallIntegerField(
                blank=True,
                choices=[(7, "7 days"), (14, "14 days"), (30, "30 days"), (None, "All")],
                default=14,
                null=True,
            ),
        ),
        migrations.AddField("contextconfig", "question_window_days", _limit(3_650)),
        migrations.AddField("contextconfig", "question_max_records", _limit(1_000)),
        migrations.RenameField("contextconfig", "notes_chars", "question_notes_chars"),
        migrations.AlterField("contextconfig", "question_notes_chars", _limit(100_000)),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.RunSQL(PUBLISH, UNPUBLISH),
    ]
