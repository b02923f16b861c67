"""The names of purged records: a keyed hash (HMAC-SHA-256) stands where the external id stood.

Who knows an external id can still be told that its record was purged, and nobody can read the id. The key is
made by a migration and kept in the database, so that the hashes hold for as long as the data, whatever
becomes of `SECRET_KEY`. It is used by the server alone, in the statement that needs it.
"""

KEY_TABLE = "contextopt_purgekey"
PREFIX = "purged:"
HASH_CHARS = 32


def purged_id_sql(space: str, source: str, external_id: str) -> str:
    """Return the expression that hashes an id, given those of its parts, where the key's table is joined.

    The table keeps the key as the two blocks that HMAC makes of it. Source: RFC 2104, section 2.
    """
    message = f"{space}::text || ':' || length({source})::text || ':' || {source} || {external_id}"
    inner = f"sha256({KEY_TABLE}.inner_block || convert_to({message}, 'UTF8'))"
    return f"'{PREFIX}' || left(encode(sha256({KEY_TABLE}.outer_block || {inner}), 'hex'), {HASH_CHARS})"
