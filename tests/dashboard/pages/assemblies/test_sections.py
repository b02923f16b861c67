"""The Inspector of an agent's context: its ledger by section."""

import pytest
from django.test import Client

from contextopt.people.models import Team
from contextopt.repositories.models import Repository
from contextopt.spaces.models import Space
from dashboard.pages.assemblies.sections import section_rows
from memory.steps.inputs import AgentStepIn
from memory.steps.step import StepResult, build_step
from tests.memory.steps.conftest import TASK, shop

__all__ = ["shop"]


@pytest.fixture
def step(team: Team, shop: Repository, space: Space) -> StepResult:
    data = AgentStepIn(task=TASK, repository="shop", space=space.slug, budget=300)
    return build_step(team=team, data=data, actor="test")


def test_the_inspector_shows_each_section(owner_client: Client, step: StepResult) -> None:
    assert step.assembly is not None
    html = owner_client.get(f"/assemblies/{step.assembly.pk}/").content.decode()
    assert '<span class="tag">Agent context</span>' in html
    assert f"together {step.certificate.tokens}" in html
    for section in step.sections:
        assert f"Items of {LABELS[section.name]}" in html
    assert "over the token budget" in html
    assert "Nothing to compare with." in html
    assert f'href="/tasks/{step.asked.task.pk}/"' in html


def test_the_list_filters_by_the_kind(owner_client: Client, step: StepResult) -> None:
    assert step.assembly is not None
    html = owner_client.get("/assemblies/?kind=agent").content.decode()
    assert f'href="/assemblies/{step.assembly.pk}/"' in html
    assert '<option value="agent" selected>Agent context</option>' in html


def test_rows_say_what_is_missing_and_why() -> None:
    items = [
        {"id": "a.py", "kept": True, "reason": "hunks", "tokens": 40},
        {"id": "b.py", "kept": False, "reason": "in_retry", "tokens": None},
    ]
    counts = {"in_retry": 1, "over_budget": 120}
    section = {"name": "files", "tokens": 50, "kept": 1, "dropped": 121, "items": items, "counts": counts}
    [row] = section_rows([section], 100)
    assert (row.label, row.tokens, row.kept, row.dropped, row.unnamed) == ("Files", "50", "1", "121", 120)
    assert row.why == "1 part of the retry, 120 over the token budget"
    assert [(item.note, item.tokens) for item in row.items] == [
        ("in part", "40"),
        ("part of the retry", "–"),
    ]


LABELS = {
    "standing_documents": "Standing documents",
    "package_manifest": "Package manifest",
    "tree": "Tree",
    "files": "Files",
    "memories": "Memories",
    "docs": "Docs",
    "strategy_hint": "Strategy hint",
}
