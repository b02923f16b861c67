"""How tasks end, and what is learned of each."""

from typing import ClassVar

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [
        ("contextopt", "0008_search"),
    ]

    operations: ClassVar = [
        migrations.CreateModel(
            name="Completion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "sha256",
                    models.CharField(
                        help_text="of the report: the same one again is the same completion", max_length=64
                    ),
                ),
                ("report", models.JSONField()),
                ("tries", models.PositiveSmallIntegerField(default=0)),
                ("error", models.TextField(blank=True, max_length=2000)),
                ("learned", models.JSONField(blank=True, null=True)),
                ("learned_at", models.DateTimeField(blank=True, null=True)),
                ("created_by", models.CharField(blank=True, max_length=160)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.AddField(
            model_name="task",
            name="completed_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="task",
            name="quality_score",
            field=models.FloatField(blank=True, help_text="0 to 10, as its report judged it", null=True),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(("quality_score__gte", 0), ("quality_score__lte", 10)), name="task_quality"
            ),
        ),
        migrations.AddField(
            model_name="completion",
            name="task",
            field=models.OneToOneField(
                on_delete=django.db.models.deletion.DB_CASCADE,
                related_name="completion",
                to="contextopt.task",
            ),
        ),
        migrations.AddField(
            model_name="completion",
            name="team",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.DB_CASCADE,
                related_name="completions",
                to="contextopt.team",
            ),
        ),
        migrations.AddIndex(
            model_name="completion",
            index=models.Index(
                condition=models.Q(("learned_at", None)), fields=["id"], name="completion_unlearned"
            ),
        ),
        migrations.AddConstraint(
            model_name="completion",
            constraint=models.UniqueConstraint(fields=("team", "sha256"), name="completion_once"),
        ),
        migrations.AddConstraint(
            model_name="completion",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("learned__isnull", True), ("learned_at__isnull", True)),
                    models.Q(("learned__isnull", False), ("learned_at__isnull", False)),
                    _connector="OR",
                ),
                name="completion_learned",
            ),
        ),
    ]
