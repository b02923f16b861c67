"""One migration loads each SQL file, and only databases older than the version before are refused."""

import re
from collections import Counter
from pathlib import Path

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder

from config.embedded.place import SetupError
from config.embedded.schema import count_pending
from config.settings import BASE_DIR

APPS = ("contextopt", "memory", "dashboard")
FILES = sorted(path for app in APPS for path in (BASE_DIR / app).rglob("*.sql"))
LOADED = re.compile(r"load_sql\(\"(.+)\"\)")
# Generated columns call these functions, so the first migration loads them too.
BEFORE_TABLES = "contextopt/search/words.sql"
DEFINED = re.compile(r"^CREATE OR REPLACE (?:FUNCTION|TRIGGER) (\w+)", re.MULTILINE)
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


def migrations() -> list[Path]:
    return sorted(path for app in APPS for path in (BASE_DIR / app / "migrations").glob("[0-9]*.py"))


def test_one_migration_loads_each_sql_file() -> None:
    loaded = [LOADED.findall(path.read_text()) for path in migrations()]
    counts = Counter(name for names in loaded for name in set(names))
    counts[BEFORE_TABLES] = min(counts[BEFORE_TABLES], 1)
    assert counts == {str(path.relative_to(BASE_DIR)): 1 for path in FILES}


@pytest.mark.django_db
def test_the_database_has_what_the_files_define() -> None:
    migrated = definitions()
    texts = [path.read_text() for path in FILES]
    assert {name for name, _ in migrated} == {name for text in texts for name in DEFINED.findall(text)}
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER contextopt_assembly_immutable ON contextopt_assembly")
        assert definitions() != migrated
        # Each can be run again.
        for text in texts:
            cursor.execute(text)
    assert definitions() == migrated


def replaced(app: str) -> list[str]:
    loader = MigrationExecutor(connection).loader
    first = min(key for key in loader.replacements if key[0] == app)
    return [name for _, name in loader.replacements[first].replaces]


@pytest.mark.django_db
def test_a_database_of_the_version_before_is_complete() -> None:
    MigrationRecorder.Migration.objects.filter(app__in=APPS, name__contains="_squashed_00").exclude(
        name__in=[name for app in APPS for name in replaced(app)]
    ).delete()
    assert count_pending() == 0


@pytest.mark.django_db
@pytest.mark.parametrize("app", ["contextopt", "memory"])
@pytest.mark.parametrize("missing", [slice(-1, None), slice(1, None)])
def test_an_older_database_is_refused(app: str, missing: slice) -> None:
    names = replaced(app)
    MigrationRecorder.Migration.objects.filter(app=app, name__in=names[missing]).delete()
    with pytest.raises(SetupError, match=rf"older version.*two steps.*{app}.{names[-1]}"):
        count_pending()
