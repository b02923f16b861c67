"""Tells that a request can also have too many values to be read. The table stays as it is."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('contextopt', '0054_adaptive_strictness'),
    ]

    operations = [
        migrations.AlterField(
            model_name='gatewayrequest',
            name='reason',
            field=models.CharField(blank=True, choices=[('no_space', 'The team has no space'), ('unnamed_space', 'The team has several spaces and the request names none'), ('unknown_space', 'The key reaches no space of that name'), ('too_large', 'The request is over 32 MiB or 30,000 JSON values'), ('compressed', 'The request is compressed'), ('unreadable', "The request is not the protocol's JSON"), ('no_question', 'The request has no user text'), ('tool_results', 'The turn ends in tool results and had no context before'), ('empty', 'The context is empty'), ('over_budget', 'The prompt leaves no room for a context'), ('timeout', 'The context took longer than 150 ms'), ('unavailable', 'The database was not available'), ('failed', 'Assembling the context failed')], max_length=13),
        ),
    ]
