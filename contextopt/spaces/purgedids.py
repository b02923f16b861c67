"""Hashes the external ids of purged records. A keyed hash (HMAC-SHA-256) replaces the id.

Callers who know an external id can still be told that its record was purged, but nobody can read the id. A
migration creates the key and keeps it in the database, so the hashes stay valid as long as the data, even if
`SECRET_KEY` changes. Only the database server uses it, inside the statement that needs it.
"""

KEY_TABLE = "contextopt_purgekey"
PREFIX = "purged:"
HASH_CHARS = 32


def purged_id_sql(space: str, source: str, external_id: str) -> str:
    """Return the SQL expression that hashes an id, given expressions for its parts. Join the key's table.

    The table holds the key as the two blocks that HMAC derives from it. Source: RFC 2104, section 2.
    """
    message = f"{space}::text || ':' || length({source})::text || ':' || {source} || {external_id}"
    inner = f"sha256({KEY_TABLE}.inner_block || convert_to({message}, 'UTF8'))"
    return f"'{PREFIX}' || left(encode(sha256({KEY_TABLE}.outer_block || {inner}), 'hex'), {HASH_CHARS})"
