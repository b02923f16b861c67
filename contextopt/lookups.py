"""Looks up one row by a caller's id, with an error that names what is missing."""

from django.db.models import Model, QuerySet

from contextopt.errors import NotFound


def find_one[Row: Model](rows: QuerySet[Row], what: str) -> Row:
    """Return the only row.

    Raises:
        NotFound: there is none; the message names `what`, such as `task 7`.
    """
    row = rows.first()
    if row is None:
        raise NotFound(f"There is no {what}.")
    return row
