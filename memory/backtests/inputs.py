"""Input types of backtests."""

from typing import Annotated

from pydantic import Field

from contextopt.inputs import NUMBER, Input, Ordinal

LAST_DEFAULT = 200
LAST_MAX = 5_000


class BacktestIn(Input):
    """A version of the space's settings, usually a draft, and how many of its last contexts to compute."""

    config: Ordinal
    last: Annotated[int, Field(ge=1, le=LAST_MAX), NUMBER] = LAST_DEFAULT
