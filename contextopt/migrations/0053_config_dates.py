"""Lets examples date their settings. The table stays as it is."""

from typing import ClassVar

from django.db import migrations, models
from django.utils import timezone


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0052_unsent_contexts")]

    operations: ClassVar = [
        migrations.AlterField(
            "contextconfig", "created_at", models.DateTimeField(default=timezone.now, editable=False)
        ),
    ]
