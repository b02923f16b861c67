"""Input types for requests of one prompt's context."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from contextopt.assemblies.models import CONVERSATION_MAX
from contextopt.engine.settings import MAX_TOTAL_TOKENS, REQUESTED, SCORED_STAGE, SEARCH_STAGE
from contextopt.engine.validation import Setting
from contextopt.inputs import NUMBER, QUERY_MAX, Id, Input, Moment, Ordinal, Share, Slug, Text, Tokens
from contextopt.limits import MODEL_MAX
from contextopt.spaces.inputs import SettingsIn, described, type_of, with_fields

PROMPT_TEXT_MAX = 1_000_000
IN_SIGHT_MAX = 200


def _override(name: str, setting: Setting) -> Any:
    example = setting.example if name == setting.name else None
    return type_of(setting, is_request=True) | None, described(
        setting.request_about or setting.about, example
    )


@with_fields({name: _override(name, setting) for name, setting in REQUESTED.items()})
class PromptIn(Input):
    """Settings for one prompt; they override the space's own.

    `query` is what the prompt asks. Stage 5 ranks by it, and is the default if it is given.
    """

    query: Annotated[Text, Field(max_length=QUERY_MAX)] = ""
    stage: Literal[2, 3, 4, 5] | None = None
    as_of: Moment | None = None
    system_tokens: Tokens | None = None
    history_tokens: Tokens | None = None
    system: Annotated[Text, Field(max_length=PROMPT_TEXT_MAX)] | None = None
    history: Annotated[Text, Field(max_length=PROMPT_TEXT_MAX)] | None = None
    conversation: Annotated[Text, Field(max_length=CONVERSATION_MAX)] = ""
    model: Annotated[Text, Field(max_length=MODEL_MAX)] = ""
    window_share: Share | None = None
    placement: Literal["system", "tail", "append", "auto"] | None = None
    in_sight: Annotated[list[Id], Field(max_length=IN_SIGHT_MAX)] = Field(default_factory=list)
    in_history: Annotated[
        list[Id],
        Field(
            max_length=IN_SIGHT_MAX,
            description="Contexts that the history shows for good, such as those of a hook. Their records "
            "are left out.",
        ),
    ] = Field(default_factory=list)
    carried_tokens: Annotated[int, Field(ge=0, le=MAX_TOTAL_TOKENS), NUMBER] | None = None

    @property
    def overrides(self) -> dict[str, Any]:
        """The settings that the request gives, by its names for them."""
        return {name: value for name in REQUESTED if (value := getattr(self, name)) is not None}

    @property
    def effective_stage(self) -> int:
        """The requested stage, or else 5 for a question and 4 without one."""
        return self.stage or (SEARCH_STAGE if self.query.strip() else SCORED_STAGE)

    @property
    def asks(self) -> bool:
        """Whether to rank by the question. Without one, stage 5 works as stage 4."""
        return self.effective_stage == SEARCH_STAGE and bool(self.query.strip())

    @property
    def is_in_conversation(self) -> bool:
        """Whether the conversation or earlier blocks of it are named."""
        return bool(self.conversation or self.in_sight or self.in_history)


class AssemblyIn(PromptIn):
    """A request for the context of one prompt. Settings in the request override the space's settings.

    `query` is the question. Stage 5 ranks by it, and is the default if it is given.
    """

    space: Slug
    awaits_delivery: Annotated[
        bool,
        Field(
            description="For a context that may not arrive, such as a hook's: it counts once its delivery is "
            "confirmed."
        ),
    ] = False

    if TYPE_CHECKING:

        def __init__(self, **values: Any) -> None: ...


class ReplayIn(Input):
    """Other settings for a replay. Without any, the assembly is computed as it was.

    `config` is a version of the space's settings; `settings` override it, and what the request had
    overridden.
    """

    config: Ordinal | None = None
    settings: SettingsIn = Field(default_factory=SettingsIn)
