"""Steps of trust say which rating made them and how far it moved the trust, those of before too."""

from typing import ClassVar

from django.db import migrations, models

FILL = """
UPDATE memory_trustchange c
   SET rating = substring(c.reason FROM '^rated (.+)$')::float8, weight = coalesce(p.rating_weight, 0.3)
  FROM memory_memory m LEFT JOIN memory_memorypolicy p ON p.team_id = m.team_id
 WHERE m.id = c.memory_id AND c.reason ~ '^rated [0-9.e-]+$'
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memory", "0004_version_words")]

    operations: ClassVar = [
        migrations.AddField(
            model_name="trustchange",
            name="weight",
            field=models.FloatField(
                null=True, blank=True, help_text="how far a rating moved it; none where it begins anew"
            ),
        ),
        migrations.AddField(
            model_name="trustchange",
            name="rating",
            field=models.FloatField(null=True, blank=True, help_text="none with a weight: taken back"),
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
