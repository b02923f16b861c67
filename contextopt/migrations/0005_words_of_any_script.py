"""Indexes the words of any script, and those with accents also without them."""

from typing import ClassVar

from django.db import migrations

from contextopt.sql import load_sql

# A stored search vector is computed again when its row is written. Texts of plain letters have the same words.
RECORDS = """
UPDATE contextopt_record SET title = title
 WHERE octet_length(title || notes || array_to_string(tags, ' '))
    <> length(title || notes || array_to_string(tags, ' '))
"""
# The job counts the words of these corpora again.
COUNTS = "UPDATE contextopt_searchcorpus SET counted_at = timestamptz 'epoch'"


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0002_squashed_0004_connect_codes")]

    operations: ClassVar = [
        load_sql("contextopt/search/words.sql"),
        migrations.RunSQL(RECORDS, migrations.RunSQL.noop),
        migrations.RunSQL(COUNTS, migrations.RunSQL.noop),
    ]
