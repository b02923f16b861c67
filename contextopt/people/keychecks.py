"""Reads the secret that a request sends, and finds its usable key."""

import json
from collections.abc import Mapping

from django.db import connection
from django.utils import timezone

from contextopt.people.models import SPACE_SLUGS_SQL, ApiKey, hash_key
from contextopt.people.ways import Way
from contextopt.sql import fetch_one

KEY_MAX = 200
KEY_COLUMNS = [field.attname for field in ApiKey._meta.concrete_fields]
KEY_SQL = f"""
SELECT {", ".join(KEY_COLUMNS)}, {SPACE_SLUGS_SQL} FROM {ApiKey._meta.db_table}
 WHERE secret_hash = %s AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > %s)
"""


def read_secret(headers: Mapping[str, str]) -> str:
    """Return the secret in `Authorization: Bearer SECRET`, else that in `X-API-Key`, or "" without one."""
    scheme, _, given = headers.get("Authorization", "").strip().partition(" ")
    bearer = given.strip() if scheme.lower() == "bearer" else ""
    return bearer or headers.get("X-API-Key", "").strip()


def find_key(secret: str, way: Way = Way.HTTP) -> ApiKey | None:
    """Return the usable key of this secret and note its use."""
    if not secret or len(secret) > KEY_MAX:
        return None
    key = load_key(hash_key(secret))
    if key is not None:
        key.touch(way)
    return key


def load_key(secret_hash: str) -> ApiKey | None:
    """Return the key unless it is revoked or expired.

    Every request begins with this, so the statement is written out. Building it each time took longer than
    the database takes to answer.
    """
    row = fetch_one(KEY_SQL, [secret_hash, timezone.now()])
    if row is None:
        return None
    *values, slugs = row
    key = ApiKey.from_db(connection.alias, KEY_COLUMNS, values)
    key.space_slugs = slugs
    # Django's own cursors leave JSON as text.
    key.ways = json.loads(key.ways)
    return key
