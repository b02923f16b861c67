"""The migrated database that the tests' databases are copied from. It is kept until a migration changes."""

import hashlib

from django.conf import settings
from django.db import connection

PREFIX = "contextopt_test_template"
LOCK = 0x7E57
"""One process at a time looks for the database and makes it."""
FILES = ("migrations/[0-9]*.py", "**/*.sql")
# Their text decides what the migrations do. The versions of Django and of the extensions are in the lock.
SOURCES = (
    *(f"{app}/{files}" for app in ("contextopt", "memory", "dashboard") for files in FILES),
    "config/requirements/base.txt",
)


def migrated_template() -> str:
    """Return the name of a database with the current schema and no rows. Make it if there is none."""
    name = f"{PREFIX}_{fingerprint()}"
    with connection._nodb_cursor() as cursor:
        # The lock ends with this connection, also if the process is killed.
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        cursor.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", [f"{PREFIX}%"])
        found = {row[0] for row in cursor.fetchall()}
        if name not in found:
            for old in found:
                cursor.execute(f'DROP DATABASE "{old}"')
            _migrate(PREFIX)
            # A database with a session, such as autovacuum's, cannot be copied.
            cursor.execute(f'ALTER DATABASE "{PREFIX}" ALLOW_CONNECTIONS false')
            # It gets its name at the end. A build that was ended has none and is dropped by the next.
            cursor.execute(f'ALTER DATABASE "{PREFIX}" RENAME TO "{name}"')
    return name


def fingerprint() -> str:
    """Return a digest of the files that the schema follows from."""
    digest = hashlib.sha256()
    for path in sorted({path for source in SOURCES for path in settings.BASE_DIR.glob(source)}):
        digest.update(f"{path.name}\0{path.read_text()}\0".encode())
    return digest.hexdigest()[:16]


def _migrate(name: str) -> None:
    own, test = connection.settings_dict["NAME"], connection.settings_dict["TEST"]
    wanted, test["NAME"] = test["NAME"], name
    try:
        connection.creation.create_test_db(verbosity=0, autoclobber=True)
    finally:
        connection.close()
        connection.close_pool()
        settings.DATABASES[connection.alias]["NAME"] = connection.settings_dict["NAME"] = own
        test["NAME"] = wanted
