"""Opens every page with demo data: no error, no sideways scroll, no finding of axe."""

from collections.abc import Callable

import pytest
from django.utils import timezone
from playwright.sync_api import Page, ViewportSize, expect

from contextopt.agents.models import Task
from contextopt.assemblies.models import Assembly
from contextopt.chat.models import Conversation
from contextopt.people.models import Membership, Team, User
from contextopt.spaces.configs import draft_settings
from contextopt.spaces.models import Record, Space
from dashboard.demo import load_demo
from memory.backtests.backtests import start_and_begin
from memory.backtests.inputs import BacktestIn
from memory.backtests.models import Backtest
from memory.memories.models import STRATEGY, Memory
from memory.questions.evaluations import EVALUATIONS, request_evaluation
from memory.questions.inputs import EvaluationIn, QuestionIn
from memory.questions.models import Question
from memory.questions.sets import add_question, create_set
from tests import factories
from tests.browser.conftest import DESK, PHONE, check_fit

WIDE: ViewportSize = {"width": 2560, "height": 1440}

# A script draws the charts after the page has loaded.
DRAWN = """() => [...document.querySelectorAll('[data-chart]')]
    .every(node => node.querySelector('.main-svg') || !node.checkVisibility())"""

# A label points to the first element with its id; a repeated id could be in another form.
REPEATED = """() => [...document.querySelectorAll('[id]')].map(node => node.id)
    .filter((id, at, ids) => ids.indexOf(id) !== at)"""


@pytest.fixture
def demo(team: Team) -> Team:
    load_demo(team, now=timezone.now(), actor="test", days=3, assemblies_a_day=12)
    make_questions(team)
    make_traffic(team)
    return team


def make_traffic(team: Team) -> None:
    """Let prompts pass the gateway: with a context, without one, and of a model with a long name."""
    space = Space.objects.get(team=team, slug="demo-support")
    for model, values in (
        ("gpt-4o-mini", {"mode": "insert", "is_inserted": True, "context_tokens": 900, "cached_tokens": 64}),
        ("W" * 120, {"reason": "tool_results", "outcome": "broken"}),
    ):
        made = Assembly.objects.filter(space=space).latest("pk")
        factories.make_gateway_request(space, model=model, assembly=made, **values)


def make_questions(team: Team) -> None:
    """Make a question set about a demo space, with a found and a missed record."""
    space = Space.objects.get(team=team, slug="demo-support")
    found = create_set(space=space, name="W" * 120, actor="test")
    for text in ("Why did the import stop?", "W" * 300):
        record = Record.objects.filter(space=space).latest("pk")
        data = QuestionIn(query=text, record_ids=[record.pk])
        add_question(question_set=found, data=data, actor="test")
    EVALUATIONS.complete(request_evaluation(question_set=found, data=EvaluationIn(), actor="test"))
    draft = draft_settings(space=space, created_by="test", context_tokens=300)
    start_and_begin(space=space, data=BacktestIn(config=draft.version, last=20), actor="test")


def inner_pages(team: Team) -> list[str]:
    """Return one page of each kind that the navigation doesn't link to directly."""
    assemblies = Assembly.objects.filter(team=team)
    asked, plain = assemblies.filter(stage=5).first(), assemblies.filter(stage=4).first()
    handed = assemblies.filter(kind="handoff").first()
    record = Record.objects.filter(space__slug="demo-support").first()
    memory = Memory.objects.filter(team=team).exclude(memory_type=STRATEGY).first()
    strategy = Memory.objects.filter(team=team, memory_type=STRATEGY).first()
    task, conversation = Task.objects.filter(team=team).first(), Conversation.objects.of(team).last()
    assert asked and plain and handed and record and memory and strategy and task and conversation
    question = Question.objects.latest("pk")
    questions = f"/questions/{question.question_set_id}/"
    return [
        *(f"/assemblies/{each.pk}/" for each in (asked, plain, handed)),
        f"/assemblies/compare/?id={asked.pk}&id={plain.pk}",
        "/overview/saved/?range=90d", "/spaces/demo-support/", "/spaces/demo-support/settings/",
        "/spaces/demo-support/import/", "/repositories/index/", "/traffic/spaces/demo-support/",
        "/traffic/prompts/",
        "/spaces/demo-support/preview/?question=import", "/spaces/demo-support/records/new/",
        f"/spaces/demo-support/records/{record.pk}/",
        "/search/?q=import+stopped", *(f"/tasks/{each.pk}/" for each in Task.objects.filter(team=team)),
        f"/tasks/{task.pk}/findings/1/", "/tasks/new/",
        f"/memory/{memory.pk}/", "/memory/new/", f"/strategies/{strategy.pk}/", "/strategies/complete/",
        f"/chat/{conversation.pk}/", "/feedback/votes/",
        questions, f"{questions}new/", f"{questions}import/", f"/questions/question/{question.pk}/",
        f"/assemblies/{asked.pk}/question", f"/backtests/{Backtest.objects.latest('pk').pk}/",
        "/backtests/?space=demo-support",
    ]  # fmt: skip


def test_every_page(
    demo: Team,
    owner: User,
    open_page: Callable[..., Page],
    check_accessibility: Callable[..., None],
) -> None:
    # With a second team there is a switcher in the navigation.
    Membership.objects.create(team=factories.make_team("second"), user=owner)
    page = open_page(**DESK)
    page.goto("/")
    links = page.locator("nav.side > a").evaluate_all("found => found.map(a => a.getAttribute('href'))")
    own = [link for link in dict.fromkeys(links) if link and not link.startswith(("/admin", "/api"))]
    assert len(own) >= 12
    for address in [*own, *inner_pages(demo)]:
        page.goto(address)
        page.wait_for_function(DRAWN)
        expect(page.get_by_role("heading", level=1)).to_have_count(1)
        assert page.evaluate(REPEATED) == [], address
        check_fit(page)
        check_accessibility(page)
        # The dark page differs from the light one only in its colours, the others only in their layout.
        page.emulate_media(color_scheme="dark")
        check_accessibility(page, "color-contrast")
        page.emulate_media(color_scheme="light")
        for size in (WIDE, PHONE["viewport"], DESK["viewport"]):
            page.set_viewport_size(size)
            check_fit(page)
