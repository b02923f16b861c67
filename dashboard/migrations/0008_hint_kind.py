"""Strategy hints are a kind of assembly."""

from typing import ClassVar

from django.db import migrations, models

KINDS = [
    ("space", "Space context"),
    ("phase", "Phase filter"),
    ("retry", "Retry delta"),
    ("handoff", "Hand-off"),
    ("hint", "Strategy hint"),
]


class Migration(migrations.Migration):
    dependencies: ClassVar = [("dashboard", "0007_plain_words")]

    operations: ClassVar = [
        migrations.AlterField(name, "kind", models.CharField(choices=KINDS, max_length=8))
        for name in ("dayrollup", "daysummary", "hoursummary", "quarterrollup")
    ]
