"""The tokens of a prompt that enter the provider's cache. They cost more than others with some providers."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models import F, Q

# Rows refuse changes. Those of before were split by the usual minimum, unless a team had entered another.
FILL = """
ALTER TABLE contextopt_assembly DISABLE TRIGGER USER;
UPDATE contextopt_assembly
   SET cacheable_tokens = CASE WHEN prompt_tokens >= 1024 THEN prompt_tokens - cached_tokens ELSE 0 END
 WHERE prompt_tokens IS NOT NULL;
ALTER TABLE contextopt_assembly ENABLE TRIGGER USER;
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0049_gateway_answers")]

    operations: ClassVar = [
        migrations.RemoveConstraint("assembly", "assembly_prefix"),
        migrations.AddField("assembly", "cacheable_tokens", models.PositiveIntegerField(null=True)),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.AddConstraint(
            "assembly",
            models.CheckConstraint(
                condition=Q(
                    prompt_tokens=None, shared_prefix_tokens=None, cached_tokens=None, cacheable_tokens=None
                )
                | Q(
                    cached_tokens__lte=F("shared_prefix_tokens"),
                    shared_prefix_tokens__lte=F("prompt_tokens"),
                    cacheable_tokens__lte=F("prompt_tokens") - F("cached_tokens"),
                ),
                name="assembly_prefix",
            ),
        ),
    ]
