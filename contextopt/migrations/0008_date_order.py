"""Adds the order of the day and the month in a team's dates."""

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0007_links_and_answers")]

    operations: ClassVar = [
        migrations.AddField(
            model_name="team",
            name="date_order",
            field=models.CharField(
                blank=True,
                choices=[
                    ("", "As usual in the time zone"),
                    ("day", "Day first (31/12/2026)"),
                    ("month", "Month first (12/31/2026)"),
                ],
                help_text="How imports read dates such as 03/04/2026 if no date in the column shows the order.",
                max_length=5,
            ),
        ),
        migrations.AddConstraint(
            model_name="team",
            constraint=models.CheckConstraint(
                condition=models.Q(("date_order__in", ["", "day", "month"])), name="team_date_order"
            ),
        ),
    ]
