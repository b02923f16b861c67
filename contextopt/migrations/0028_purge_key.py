"""The key of the hashes that stand for the external ids of purged records, and an index that finds those."""

import secrets
from typing import Any, ClassVar

from django.db import migrations, models

BLOCK_BYTES = 64
CREATE = """
CREATE TABLE contextopt_purgekey (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    inner_block bytea NOT NULL,
    outer_block bytea NOT NULL
)
"""


def make_key(_apps: Any, schema_editor: Any) -> None:
    """Store the two blocks that HMAC makes of a key. Source: RFC 2104, section 2."""
    key = secrets.token_bytes(BLOCK_BYTES)
    blocks = [bytes(byte ^ pad for byte in key) for pad in (0x36, 0x5C)]
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("INSERT INTO contextopt_purgekey (inner_block, outer_block) VALUES (%s, %s)", blocks)


class Migration(migrations.Migration):
    dependencies: ClassVar = [("contextopt", "0027_answered_records")]

    operations: ClassVar = [
        migrations.RunSQL(CREATE, "DROP TABLE contextopt_purgekey"),
        migrations.RunPython(make_key, migrations.RunPython.noop),
        migrations.RemoveIndex(model_name="record", name="record_purged"),
        migrations.AddIndex(
            model_name="record",
            index=models.Index(
                fields=["space", "purged_at"],
                condition=models.Q(purged_at__isnull=False),
                name="record_purged",
            ),
        ),
    ]
