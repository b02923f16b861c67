"""The size of a long record in a question's context becomes a setting.

The versions of before keep a quarter of the room, which null stands for.
"""

from typing import ClassVar

import django.core.validators
from django.db import migrations, models


def _tokens(**default: int) -> models.Field:
    return models.PositiveIntegerField(
        blank=True,
        help_text="Leave blank for a quarter of the context.",
        null=True,
        validators=[
            django.core.validators.MinValueValidator(64),
            django.core.validators.MaxValueValidator(200_000),
        ],
        **default,
    )


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0033_partial_answers")]

    operations: ClassVar = [
        migrations.AddField("contextconfig", "question_record_tokens", _tokens()),
        migrations.AlterField("contextconfig", "question_record_tokens", _tokens(default=120)),
    ]
