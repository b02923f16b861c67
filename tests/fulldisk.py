"""A database without room to write: the server's own error, raised where a row is written."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

# disk_full, out_of_memory, insufficient_resources (the class of all) and configuration_limit_exceeded.
LACKS = ("53100", "53200", "53000", "53400")


@contextmanager
def lacking_room(table: str, code: str = "53100", *, after_rows: int = 0) -> Iterator[None]:
    """Make the server refuse every row written into the table after the first `after_rows`."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE SEQUENCE rows_written")
        cursor.execute(
            f"""
            CREATE FUNCTION refuse_for_lack_of_room() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF nextval('rows_written') > {after_rows} THEN
                    RAISE EXCEPTION 'could not extend file "base/1/2": No space left on device'
                          USING ERRCODE = '{code}';
                END IF;
                RETURN NEW;
            END $$
            """
        )
        cursor.execute(
            f"CREATE TRIGGER lacking_room BEFORE INSERT OR UPDATE ON {table}"
            " FOR EACH ROW EXECUTE FUNCTION refuse_for_lack_of_room()"
        )
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"DROP TRIGGER lacking_room ON {table}")
            cursor.execute("DROP FUNCTION refuse_for_lack_of_room()")
            cursor.execute("DROP SEQUENCE rows_written")
