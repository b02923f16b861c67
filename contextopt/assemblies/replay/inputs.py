"""Input types for replays."""

from typing import Annotated

from pydantic import Field

from contextopt.inputs import INT_MAX, NUMBER, Input
from contextopt.spaces.inputs import SettingsIn


class ReplayIn(Input):
    """Other settings for a replay. Without any, the assembly is computed as it was.

    `config` is a version of the space's settings; `settings` override it, and what the request had
    overridden.
    """

    config: Annotated[int, Field(ge=1, le=INT_MAX), NUMBER] | None = None
    settings: SettingsIn = Field(default_factory=SettingsIn)
