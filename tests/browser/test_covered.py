"""Nothing covers a button or a link, however long a title without spaces is."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from contextopt.people.models import Team
from contextopt.spaces.models import Record, Space
from memory.questions.inputs import QuestionIn
from memory.questions.sets import add_question, create_set
from tests import factories
from tests.browser.conftest import DESK, PHONE, check_fit
from tests.memory.factories import make_memory, make_review, make_strategy

UNBROKEN = "W" * 300
# Elements to press whose centre belongs to something else, but not those inside popups that are shut.
COVERED = """() => [...document.querySelectorAll('main :is(a[href], button, summary, input, select)')]
    .filter(node => node.type !== 'hidden' && node.checkVisibility({visibilityProperty: true}))
    .filter(node => !node.closest('.sr, .js-plotly-plot') && getComputedStyle(node).pointerEvents !== 'none')
    .filter(node => {
        node.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'});
        const box = [...node.getClientRects()].find(({width, height}) => width && height);
        if (!box) return false;
        const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
        return !(top && (node.contains(top) || top.contains(node) || node.labels?.[0]?.contains(top)));
    })
    .map(node => node.outerHTML.slice(0, 160))"""
# A window of 1440 pixels at 200 %.
ZOOMED: dict[str, Any] = {"color_scheme": "light", "viewport": {"width": 720, "height": 450}}


@pytest.fixture
def space(team: Team) -> Space:
    made = factories.make_space(team, name=UNBROKEN[:120])
    for number in range(3):
        factories.make_record(made, title=UNBROKEN, notes=UNBROKEN, tags=["W" * 60], external_id=f"{number}")
    return made


def addresses_of(space: Space) -> list[str]:
    """Make one of everything that has a long name; return the pages that show them."""
    team = space.team
    record = Record.objects.filter(space=space).latest("pk")
    asked = factories.make_assembly(space, query=UNBROKEN, stage=5).id
    plain = factories.make_assembly(space).id
    item = make_review(space)
    conversation = factories.make_conversation(space, title=UNBROKEN[:120])
    factories.make_message(conversation, UNBROKEN)
    task = factories.make_task(team, description=UNBROKEN)
    factories.make_attempt(task)
    content = {"description": UNBROKEN, "severity": "high", "mitigation": UNBROKEN}
    factories.make_finding(task, content=content)
    memory, strategy = make_memory(team, content=UNBROKEN), make_strategy(team, plan=UNBROKEN)
    questions = create_set(space=space, name=UNBROKEN[:120], actor="test")
    add_question(
        question_set=questions, data=QuestionIn(query=UNBROKEN, record_ids=[record.pk]), actor="test"
    )
    factories.make_key(team, name=UNBROKEN[:64])
    return [
        "/", "/assemblies/", f"/assemblies/{plain}/", f"/assemblies/{asked}/",
        f"/assemblies/{asked}/?explain={record.pk}", f"/assemblies/{asked}/?explain=WWW",
        f"/assemblies/compare/?id={asked}&id={plain}", f"/assemblies/{plain}/what-if/",
        f"/assemblies/{asked}/question", "/spaces/", "/spaces/support/", "/spaces/support/settings/",
        f"/spaces/support/records/{record.pk}/", "/spaces/support/preview/", "/search/?q=WWW", "/chat/",
        f"/chat/{conversation.pk}/", "/tasks/", f"/tasks/{task.pk}/", "/retries/", "/memory/",
        f"/memory/{memory.pk}/", "/strategies/", f"/strategies/{strategy.pk}/", "/questions/",
        f"/questions/{questions.pk}/", "/review/", f"/review/{item.pk}/", "/feedback/", "/feedback/votes/",
        "/backtests/", "/connect/", "/settings/", "/settings/audit/", "/traffic/", "/phases/",
    ]  # fmt: skip


def test_no_long_title_covers_a_button(space: Space, open_page: Callable[..., Page]) -> None:
    page = open_page(**DESK)
    for address in addresses_of(space):
        page.set_viewport_size(DESK["viewport"])
        page.goto(address)
        for size in (DESK, ZOOMED, PHONE):
            page.set_viewport_size(size["viewport"])
            for direction in ("ltr", "rtl"):
                page.evaluate("direction => { document.documentElement.dir = direction; }", direction)
                check_fit(page)
                at = f"{address} at {size['viewport']['width']} pixels, {direction}"
                assert page.evaluate(COVERED) == [], at
