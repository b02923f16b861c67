"""Looks for a word in everything that the database stores, whatever tables and columns there are."""

from django.db import connection

TABLES = """
SELECT table_schema, table_name FROM information_schema.tables
 WHERE table_schema NOT IN ('pg_catalog', 'information_schema') AND table_type = 'BASE TABLE'
"""


def places_of(word: str) -> set[str]:
    """Return each `table.column` that has the word, in texts, lists, JSON, search vectors or bytes."""
    found: set[str] = set()
    with connection.cursor() as cursor:
        cursor.execute(TABLES)
        for schema, table in cursor.fetchall():
            cursor.execute(f'SELECT * FROM "{schema}"."{table}"')
            names = [column.name for column in cursor.description]
            for row in cursor:
                found |= {
                    f"{table}.{name}" for name, value in zip(names, row, strict=True) if word in _text(value)
                }
    return found


def _text(value: object) -> str:
    plain = bytes(value).decode(errors="replace") if isinstance(value, memoryview | bytes) else str(value)
    return plain.lower()
