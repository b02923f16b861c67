"""A context has a place in the prompt, and the beginning that it shares with the last one is measured."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0045_config_drafts")]

    operations: ClassVar = [
        migrations.AddField(
            "assembly",
            "placement",
            models.CharField(
                blank=True,
                choices=[("system", "System prompt"), ("tail", "Before the question"), ("append", "Appended")],
                db_default="",
                default="",
                max_length=6,
            ),
        ),
        migrations.AddField("assembly", "carried_tokens", models.PositiveIntegerField(db_default=0, default=0)),
        migrations.AddField("assembly", "prompt_tokens", models.PositiveIntegerField(null=True)),
        migrations.AddField("assembly", "shared_prefix_tokens", models.PositiveIntegerField(null=True)),
        migrations.AddField("assembly", "cached_tokens", models.PositiveIntegerField(null=True)),
        migrations.AddField(
            "message",
            "cached_tokens",
            models.PositiveIntegerField(help_text="found in its cache, as the endpoint says", null=True),
        ),
        migrations.AddConstraint(
            "assembly",
            models.CheckConstraint(
                condition=Q(placement__in=["", "system", "tail", "append"]), name="assembly_placement"
            ),
        ),
        migrations.AddConstraint(
            "assembly",
            models.CheckConstraint(
                condition=Q(prompt_tokens=None, shared_prefix_tokens=None, cached_tokens=None)
                | Q(
                    cached_tokens__lte=F("shared_prefix_tokens"),
                    shared_prefix_tokens__lte=F("prompt_tokens"),
                ),
                name="assembly_prefix",
            ),
        ),
    ]
