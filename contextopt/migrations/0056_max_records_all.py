"""Lets a space's record limit be empty, which means all."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("contextopt", "0055_gateway_values_max"),
    ]

    operations = [
        migrations.AlterField(
            model_name="contextconfig",
            name="max_records",
            field=models.PositiveSmallIntegerField(
                blank=True,
                default=20,
                help_text="Leave blank for all.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(1000),
                ],
            ),
        ),
    ]
