"""A question's context may hold only the records that are worth their tokens."""

from typing import ClassVar

from django.db import migrations, models
from django.db.models import F, Q


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0037_givens")]

    operations: ClassVar = [
        migrations.AddField(
            "contextconfig",
            "budget_mode",
            models.CharField(
                choices=[
                    ("fixed", "Fixed: fill the budget"),
                    ("adaptive", "Adaptive: stop at what helps little"),
                ],
                db_default="fixed",
                default="fixed",
                max_length=8,
            ),
        ),
        migrations.AddField("assembly", "low_relevance", models.PositiveIntegerField(db_default=0, default=0)),
        migrations.RemoveConstraint("assembly", "assembly_adds_up"),
        migrations.AddConstraint(
            "assembly",
            models.CheckConstraint(
                condition=Q(
                    records_filtered=F("records_included")
                    + F("over_record_limit")
                    + F("over_budget")
                    + F("duplicates")
                    + F("low_relevance")
                ),
                name="assembly_adds_up",
            ),
        ),
    ]
