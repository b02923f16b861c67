"""Prices of cached tokens, and the day from which prices hold."""

import datetime
import django.core.validators
from decimal import Decimal
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('dashboard', '0009_agent_kind'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='modelprice',
            options={'ordering': ['model', '-effective_from']},
        ),
        migrations.AddField(
            model_name='modelprice',
            name='cache_write_dollars',
            field=models.DecimalField(blank=True, decimal_places=4, help_text='Leave blank if writing costs as much as any other input.', max_digits=10, null=True, validators=[django.core.validators.MinValueValidator(Decimal('0'))], verbose_name='US dollars per million tokens written to the cache'),
        ),
        migrations.AddField(
            model_name='modelprice',
            name='cached_read_dollars',
            field=models.DecimalField(blank=True, decimal_places=4, help_text='Leave blank for the price in the package genai-prices, if it has one.', max_digits=10, null=True, validators=[django.core.validators.MinValueValidator(Decimal('0'))], verbose_name='US dollars per million tokens read from the cache'),
        ),
        migrations.AddField(
            model_name='modelprice',
            name='effective_from',
            field=models.DateField(default=datetime.date(2000, 1, 1), help_text='The first day, in UTC, that these prices hold.'),
        ),
        migrations.AddField(
            model_name='modelprice',
            name='lifetime_seconds',
            field=models.PositiveIntegerField(default=300, help_text='How long an unused beginning stays cached.'),
        ),
        migrations.AddField(
            model_name='modelprice',
            name='minimum_tokens',
            field=models.PositiveIntegerField(default=1024, help_text='The shortest beginning of a prompt that is cached.'),
        ),
        migrations.AddField(
            model_name='modelprice',
            name='source',
            field=models.CharField(blank=True, help_text='Where the prices come from.', max_length=300),
        ),
        migrations.AlterField(
            model_name='modelprice',
            name='model',
            field=models.CharField(blank=True, help_text='Name used in requests. Leave blank for the price of requests without a model.', max_length=120),
        ),
        migrations.AddConstraint(
            model_name='modelprice',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('cached_read_dollars', None), ('cached_read_dollars__gte', 0), _connector='OR'), models.Q(('cache_write_dollars', None), ('cache_write_dollars__gte', 0), _connector='OR')), name='model_price_cache_positive'),
        ),
        migrations.AddConstraint(
            model_name='modelprice',
            constraint=models.UniqueConstraint(fields=('model', 'effective_from'), name='model_price_once_a_day'),
        ),
    ]
