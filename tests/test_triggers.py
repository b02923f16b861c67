"""The SQL files match the database: it has exactly their functions and triggers."""

import pytest
from django.db import connection

from config.settings import BASE_DIR

FILES = sorted(
    path for app in ("contextopt", "memory", "dashboard") for path in (BASE_DIR / app).rglob("*.sql")
)
DEFINITIONS = """
SELECT proname, md5(prosrc) FROM pg_proc
 WHERE pronamespace = 'public'::regnamespace AND proname ~ '^(contextopt|memory|dashboard)_'
 UNION ALL
SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
 ORDER BY 1, 2
"""


def definitions() -> list[tuple[str, str]]:
    with connection.cursor() as cursor:
        cursor.execute(DEFINITIONS)
        return cursor.fetchall()


@pytest.mark.django_db
def test_the_files_define_what_the_database_has() -> None:
    migrated = definitions()
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER contextopt_assembly_immutable ON contextopt_assembly")
        assert definitions() != migrated
        for path in FILES:
            cursor.execute(path.read_text())
    assert definitions() == migrated


@pytest.mark.django_db
def test_no_function_or_trigger_is_missing_in_the_files() -> None:
    text = "\n".join(path.read_text() for path in FILES)
    assert [name for name, _ in definitions() if f" {name}" not in text] == []
