"""Columns for what the provider's cache does with the prompts of a backtest."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("memory", "0009_backtests"), ("contextopt", "0050_cacheable_tokens")]

    operations: ClassVar = [
        migrations.AddField(
            "backtestrow",
            "prompt_after",
            models.PositiveIntegerField(help_text="tokens of the prompt with the new context", null=True),
        ),
        migrations.AddField("backtestrow", "cached_after", models.PositiveIntegerField(null=True)),
        migrations.AddField("backtestrow", "cacheable_after", models.PositiveIntegerField(null=True)),
    ]
