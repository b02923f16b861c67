"""Indexes the words of any script in memories too."""

from typing import ClassVar

from django.db import migrations

# As for records: a stored search vector is computed again when its row is written.
MEMORIES = """
UPDATE memory_memory SET title = title
 WHERE octet_length(title || content || array_to_string(tags, ' '))
    <> length(title || content || array_to_string(tags, ' '))
"""


class Migration(migrations.Migration):
    dependencies: ClassVar = [
        ("memory", "0001_squashed_0013_strategy_outcomes"),
        ("contextopt", "0005_words_of_any_script"),
    ]

    operations: ClassVar = [migrations.RunSQL(MEMORIES, migrations.RunSQL.noop)]
