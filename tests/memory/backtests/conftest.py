"""A space with a small talk, contexts that were logged in it, and a draft with room for one record."""

import pytest

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.models import Assembly
from contextopt.spaces.configs import ContextConfig, draft_settings
from contextopt.spaces.models import Record, Space
from tests.memory.questions.conftest import ASKED, SAID_AT, make_talk


def ask(space: Space, text: str, **given) -> Assembly:
    request = AssemblyIn(space=space.slug, query=text, as_of=SAID_AT, **given)
    result = assemble_space(team_id=space.team_id, request=request, actor="test")
    return Assembly.objects.select_related("payload").get(pk=result.id)


def ask_all(space: Space, rounds: int = 1) -> list[Assembly]:
    return [ask(space, text) for _ in range(rounds) for _, text, *_ in ASKED]


def make_draft(space: Space, **settings) -> ContextConfig:
    return draft_settings(space=space, created_by="test", **(settings or {"question_max_records": 1}))


@pytest.fixture
def talk(space: Space) -> list[Record]:
    return make_talk(space)


@pytest.fixture
def asked(space: Space, talk: list[Record]) -> list[Assembly]:
    return ask_all(space)


@pytest.fixture
def draft(space: Space) -> ContextConfig:
    return make_draft(space)
