"""Records that were purged before lose their external ids too: in their row, in ledgers, in the admin's log."""

import json
from collections import defaultdict
from typing import Any, ClassVar

from django.db import migrations

BATCH = 500
HASH_IDS = """
UPDATE contextopt_record r
   SET external_id = 'purged:' || left(encode(sha256(k.outer_block || sha256(k.inner_block || convert_to(
           r.space_id::text || ':' || length(r.source)::text || ':' || r.source || r.external_id, 'UTF8'
       ))), 'hex'), 32)
  FROM contextopt_purgekey k
 WHERE r.purged_at IS NOT NULL AND r.external_id <> '' AND r.external_id !~ '^purged:[0-9a-f]{32}$'
RETURNING r.space_id, r.id, r.external_id
"""
FIND_LEDGERS = """
SELECT p.assembly_id, p.ledger -> 'candidates' -> 'id', p.ledger -> 'candidates' -> 'external_id'
  FROM contextopt_assemblypayload p JOIN contextopt_assembly a ON a.id = p.assembly_id
 WHERE a.space_id = %s AND a.id > %s AND p.record_ids && %s::bigint[]
 ORDER BY a.id LIMIT %s
"""
WRITE_LEDGER = """
UPDATE contextopt_assemblypayload
   SET ledger = jsonb_set(ledger, '{candidates,external_id}', %s::jsonb) WHERE assembly_id = %s
"""
ERASE_TITLES = """
UPDATE django_admin_log l SET object_repr = '[purged]'
  FROM django_content_type t, contextopt_record r
 WHERE t.id = l.content_type_id AND t.app_label = 'contextopt' AND t.model = 'record'
   AND l.object_id = r.id::text AND r.purged_at IS NOT NULL
"""


def hash_ids(_apps: Any, schema_editor: Any) -> None:
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(HASH_IDS)
        spaces: dict[int, dict[int, str]] = defaultdict(dict)
        for space_id, record_id, external_id in cursor.fetchall():
            spaces[space_id][record_id] = external_id
        for space_id, hashes in spaces.items():
            hash_in_ledgers(cursor, space_id, hashes)
        cursor.execute(ERASE_TITLES)


def hash_in_ledgers(cursor: Any, space_id: int, hashes: dict[int, str]) -> None:
    after = 0
    while rows := find_ledgers(cursor, space_id, after, hashes):
        for assembly_id, ids, external_ids in rows:
            given = zip(ids, external_ids, strict=True)
            hashed = [hashes.get(record_id, external_id) for record_id, external_id in given]
            cursor.execute(WRITE_LEDGER, [json.dumps(hashed), assembly_id])
        after = rows[-1][0]


def find_ledgers(
    cursor: Any, space_id: int, after: int, hashes: dict[int, str]
) -> list[tuple[int, list[int], list[str]]]:
    cursor.execute(FIND_LEDGERS, [space_id, after, list(hashes), BATCH])
    return [(row[0], _json(row[1]), _json(row[2])) for row in cursor.fetchall()]


def _json(value: Any) -> Any:
    # Django's connections leave JSON as text.
    return json.loads(value) if isinstance(value, str) else value


class Migration(migrations.Migration):
    # It needs the admin's tables too, which every database with records has. Naming them here would make the
    # squashed migration circular.
    dependencies: ClassVar = [("contextopt", "0028_purge_key")]

    # A hash cannot be turned back.
    operations: ClassVar = [migrations.RunPython(hash_ids, migrations.RunPython.noop)]
