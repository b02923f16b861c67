"""All sums of rollups have the same default, since one table declares them. The database changes nothing."""

from typing import ClassVar

from django.db import migrations, models

ROLLUPS = ("quarterrollup", "dayrollup", "hoursummary", "daysummary")
COUNTS = ("assemblies", "truncated", "empties", "prompts", "with_ratio", "with_utilisation")
TOKENS = (
    "records_filtered", "records_included", "tokens_before", "tokens_after", "tokens_saved", "carried_tokens",
    "saved_in_prompts",
)  # fmt: skip
FRACTIONS = ("ratios", "utilisations")


def sums() -> dict[str, "models.Field"]:
    """Return a new field for each column."""
    return {
        **{name: models.PositiveIntegerField(default=0) for name in COUNTS},
        **{name: models.BigIntegerField(default=0) for name in TOKENS},
        **{name: models.FloatField(default=0.0) for name in FRACTIONS},
    }


class Migration(migrations.Migration):
    dependencies: ClassVar = [("dashboard", "0001_squashed_0018_corrected_savings")]

    operations: ClassVar = [
        migrations.AlterField(rollup, name, field) for rollup in ROLLUPS for name, field in sums().items()
    ]
