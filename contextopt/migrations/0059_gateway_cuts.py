"""Logs where a conversation's history was cut, so that a restart of the gateway does not move the cut."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('contextopt', '0058_unread_handoffs'),
    ]

    operations = [
        migrations.AddField(
            model_name='gatewayrequest',
            name='cut_hash',
            field=models.CharField(blank=True, db_default='', default='', max_length=32),
        ),
        migrations.AddField(
            model_name='gatewayrequest',
            name='cut_turn',
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.AlterField(
            model_name='gatewaypolicy',
            name='history_tokens',
            field=models.PositiveIntegerField(blank=True, help_text='if older turns have more tokens, cut them to half of it; blank to never cut', null=True),
        ),
    ]
