"""A team's limits for retries."""

from typing import ClassVar
import django.core.validators
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies: ClassVar = [
        ('contextopt', '0038_adaptive_budget'),
    ]

    operations: ClassVar = [
        migrations.CreateModel(
            name='RetrySettings',
            fields=[
                ('team', models.OneToOneField(on_delete=django.db.models.deletion.DB_CASCADE, primary_key=True, related_name='retry_settings', serialize=False, to='contextopt.team')),
                ('error_tokens', models.PositiveIntegerField(default=450, help_text='Maximum tokens of the error in a retry.', validators=[django.core.validators.MinValueValidator(50), django.core.validators.MaxValueValidator(20000)])),
                ('diff_lines', models.PositiveIntegerField(default=20, help_text='Maximum changed lines shown of each file.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(100000)])),
                ('diff_characters', models.PositiveIntegerField(default=500, help_text="Maximum characters of each file's change.", validators=[django.core.validators.MinValueValidator(100), django.core.validators.MaxValueValidator(1000000)])),
                ('updated_by', models.CharField(blank=True, editable=False, max_length=160)),
                ('updated_at', models.DateTimeField(auto_now=True)),
            ],
            options={
                'verbose_name_plural': 'retry settings',
                'constraints': [models.CheckConstraint(condition=models.Q(('diff_characters__range', (100, 1000000)), ('diff_lines__range', (1, 100000)), ('error_tokens__range', (50, 20000))), name='retry_settings_range')],
            },
        ),
    ]
