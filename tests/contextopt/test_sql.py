"""Control of the planner through the driver."""

import pytest
from django.db import DataError, connection, transaction

from contextopt.sql import planned_anew

pytestmark = pytest.mark.django_db


def ask_often(statement: str) -> int:
    """Run the statement several times, and return how many prepared ones the server holds of it."""
    with connection.cursor() as cursor:
        for number in range(5):
            cursor.execute(statement, [number])
        cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%%own plan%%'")
        count: int = cursor.fetchone()[0]
        return count


def test_a_statement_planned_anew_is_never_prepared() -> None:
    statement = 'SELECT %s::int AS "own plan"'
    with planned_anew():
        assert ask_often(statement) == 0
    assert ask_often(statement) == 1


def test_statements_after_an_error_are_prepared_again() -> None:
    with pytest.raises(DataError), transaction.atomic(), planned_anew():
        ask_often("SELECT 1 / %s::int")
    assert ask_often('SELECT %s::int AS "own plan"') == 1
