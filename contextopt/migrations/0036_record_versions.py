"""Records get a version, which their next revision keeps. Revisions keep the language too.

The columns are added without reading or rewriting a table, so every record begins at version 1. Revisions
from before have no version, since nothing refers to one.
"""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0035_mention_weights")]

    operations: ClassVar = [
        migrations.AddField(
            "record", "version", models.IntegerField(db_default=1, default=1, editable=False)
        ),
        migrations.AddField("recordrevision", "version", models.IntegerField(editable=False, null=True)),
        migrations.AddField(
            "recordrevision",
            "language",
            models.CharField(
                blank=True, choices=[("en", "English"), ("no", "Norwegian")], db_default="", max_length=2
            ),
        ),
        migrations.AddConstraint(
            "recordrevision",
            models.UniqueConstraint(
                condition=models.Q(version__isnull=False),
                fields=["record", "version"],
                name="revision_version_once",
            ),
        ),
    ]
