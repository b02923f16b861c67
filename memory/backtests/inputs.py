"""Input types of backtests."""

from typing import Annotated

from pydantic import Field

from contextopt.inputs import INT_MAX, NUMBER, Input

LAST_DEFAULT = 200
LAST_MAX = 5_000


class BacktestIn(Input):
    """A version of the space's settings, usually a draft, and how many of its last contexts to compute."""

    config: Annotated[int, Field(ge=1, le=INT_MAX), NUMBER]
    last: Annotated[int, Field(ge=1, le=LAST_MAX), NUMBER] = LAST_DEFAULT
