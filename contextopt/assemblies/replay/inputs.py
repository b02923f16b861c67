"""Input types for replays."""

from pydantic import Field

from contextopt.inputs import Input, Ordinal
from contextopt.spaces.inputs import SettingsIn


class ReplayIn(Input):
    """Other settings for a replay. Without any, the assembly is computed as it was.

    `config` is a version of the space's settings; `settings` override it, and what the request had
    overridden.
    """

    config: Ordinal | None = None
    settings: SettingsIn = Field(default_factory=SettingsIn)
