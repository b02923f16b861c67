"""An index for the answers whose endpoint reported its cache."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0050_cacheable_tokens")]

    operations: ClassVar = [
        migrations.AddIndex(
            "message",
            models.Index(
                fields=["created_at"], condition=Q(cached_tokens__isnull=False), name="message_reported"
            ),
        ),
    ]
