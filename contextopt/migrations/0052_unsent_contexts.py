"""Tells contexts that were sent from those that the gateway would have inserted into audited prompts."""

from typing import ClassVar

from django.db import migrations, models

# A tool loop repeats the context of its first prompt, so one inserted request is enough.
MARK_UNSENT = """
ALTER TABLE contextopt_assembly DISABLE TRIGGER contextopt_assembly_immutable;
UPDATE contextopt_assembly a SET is_sent = false
 WHERE a.id IN (SELECT assembly_id FROM contextopt_gatewayrequest
                 WHERE assembly_id IS NOT NULL GROUP BY assembly_id HAVING NOT bool_or(is_inserted));
ALTER TABLE contextopt_assembly ENABLE TRIGGER contextopt_assembly_immutable;
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0051_reported_cache")]

    operations: ClassVar = [
        migrations.AddField("assembly", "is_sent", models.BooleanField(default=True, db_default=True)),
        migrations.RunSQL(MARK_UNSENT, migrations.RunSQL.noop),
    ]
