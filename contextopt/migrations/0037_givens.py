"""Assemblies keep what the engine was given. It is compressed already, so the database does not try again."""

from typing import ClassVar

from django.db import migrations, models

STORE_AS_IT_IS = "ALTER TABLE contextopt_assemblypayload ALTER COLUMN givens SET STORAGE EXTERNAL;"


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0036_record_versions")]

    operations: ClassVar = [
        migrations.AddField("assemblypayload", "givens", models.BinaryField(null=True)),
        migrations.RunSQL(STORE_AS_IT_IS, migrations.RunSQL.noop),
    ]
