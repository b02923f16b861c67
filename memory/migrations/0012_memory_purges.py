"""Notes when a memory's text was erased for good."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies: ClassVar = [
        ("contextopt", "0062_audit_erasure"),
        ("memory", "0001_squashed_0011_evidence_shown"),
    ]

    operations: ClassVar = [
        migrations.AddField("memory", "purged_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddIndex(
            "memory",
            models.Index(
                fields=["purged_at", "deleted_at"],
                condition=Q(deleted_at__isnull=False),
                name="memory_purged",
            ),
        ),
    ]
