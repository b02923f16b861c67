"""A team with an indexed repository, a space, memories, a strategy and a standing document."""

from typing import Any

import pytest

from contextopt.agents.inputs import StandingDocumentIn
from contextopt.agents.standingdocuments import attach_document
from contextopt.people.models import Team
from contextopt.repositories.models import Repository
from contextopt.search import registry
from contextopt.search.vectors.fill import ensure_embedded
from contextopt.spaces.models import Space
from memory.steps.inputs import AgentStepIn
from memory.steps.step import StepResult, build_step
from tests import factories
from tests.gitrepos import SHOP
from tests.memory.factories import make_memory, make_strategy

MANIFEST = '[project]\nname = "shop"\n'
TASK = "Fix the wrong rounding of prices in the cart"


@pytest.fixture
def shop(team: Team, space: Space) -> Repository:
    factories.make_record(space, title="Prices are rounded per line", notes="The cart sums rounded prices.")
    ensure_embedded(registry.get("record"), space.pk, limit=9)
    make_memory(team, title="Money", repository="shop")
    make_memory(team, content="The currency service rounds prices.", trust_level="external")
    make_memory(team, content="Prices of the other shop are floats.", repository="rivals")
    make_strategy(team)
    document = StandingDocumentIn(repository="shop", title="Style", content="Round at the last step only.\n")
    attach_document(team=team, data=document, actor="test")
    return factories.make_repository(team, files={**SHOP, "pyproject.toml": MANIFEST})


@pytest.fixture
def build(team: Team):
    """Build a step: `build(phase="building")`. Without a task it is about a new one of the shop."""

    def run(**data: Any) -> StepResult:
        if "task_id" not in data:
            data = {"task": TASK, "repository": "shop", **data}
        return build_step(team=team, data=AgentStepIn(**data), actor="test")

    return run
