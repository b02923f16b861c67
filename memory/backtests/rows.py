"""The rows of a backtest, in lists."""

from pydantic import TypeAdapter

from contextopt.inputs import BigInt
from contextopt.paging import Keyset

# The largest change in tokens first.
BY_CHANGE = Keyset(
    "backtest row", ("change", "id"), is_descending=True, key=TypeAdapter(tuple[BigInt, BigInt])
)
