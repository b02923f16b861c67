"""Names clients that left as pages and docs do. The table stays as it is."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('contextopt', '0059_gateway_cuts'),
    ]

    operations = [
        migrations.AlterField(
            model_name='gatewayrequest',
            name='outcome',
            field=models.CharField(choices=[('answered', 'Answered'), ('unreachable', 'Not reachable'), ('broken', 'Broke off'), ('abandoned', 'Abandoned')], max_length=11),
        ),
    ]
