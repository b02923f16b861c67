"""The days and the person that a question names count in its scores.

The versions of before keep their scores, with weights of 0. Every space gets a version of its settings with the
default weights, and with the default size of long records. The default weight of words falls from 6 to 4.
"""

from decimal import Decimal
from typing import ClassVar

import django.core.validators
from django.db import migrations, models
from django.db.models import Q

PUBLISH = """
WITH previous AS (
    UPDATE contextopt_contextconfig SET is_active = false WHERE is_active RETURNING *
)
INSERT INTO contextopt_contextconfig (
    space_id, version, is_active, window_days, max_records, recency_weight, frequency_weight, system_tokens,
    history_tokens, response_tokens, context_tokens, stage3_context_tokens, total_tokens, encoding,
    record_order, semantic_weight, lexical_weight, neighbour_share, date_weight, who_weight,
    question_window_days, question_max_records, question_notes_chars, question_record_tokens, note, created_by,
    created_at)
SELECT p.space_id,
       (SELECT max(c.version) + 1 FROM contextopt_contextconfig c WHERE c.space_id = p.space_id),
       true, window_days, max_records, recency_weight, frequency_weight, system_tokens, history_tokens,
       response_tokens, context_tokens, stage3_context_tokens, total_tokens, encoding, record_order,
       semantic_weight, CASE lexical_weight WHEN 6 THEN 4 ELSE lexical_weight END, neighbour_share, 3, 4, question_window_days, question_max_records,
       question_notes_chars, 120,
       'Long records show their best passages, and the days and the person that a question names count.',
       'upgrade', now()
  FROM previous p;
"""


def _weight(default: str) -> models.Field:
    return models.DecimalField(
        decimal_places=3,
        default=Decimal(default),
        max_digits=5,
        validators=[
            django.core.validators.MinValueValidator(0),
            django.core.validators.MaxValueValidator(10),
        ],
    )


def _between(name: str, high: int) -> Q:
    return Q(**{f"{name}__gte": 0, f"{name}__lte": high})


_OLD = (
    _between("recency_weight", 10)
    & _between("frequency_weight", 10)
    & _between("semantic_weight", 10)
    & _between("lexical_weight", 10)
    & _between("neighbour_share", 1)
)


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0034_record_tokens")]

    operations: ClassVar = [
        migrations.AddField("contextconfig", "date_weight", _weight("0")),
        migrations.AddField("contextconfig", "who_weight", _weight("0")),
        migrations.AlterField("contextconfig", "date_weight", _weight("3")),
        migrations.AlterField("contextconfig", "who_weight", _weight("4")),
        migrations.AlterField("contextconfig", "lexical_weight", _weight("4")),
        migrations.RemoveConstraint("contextconfig", "config_weights"),
        migrations.AddConstraint(
            "contextconfig",
            models.CheckConstraint(
                condition=_OLD & _between("date_weight", 10) & _between("who_weight", 10), name="config_weights"
            ),
        ),
        migrations.RunSQL(PUBLISH, migrations.RunSQL.noop),
    ]
