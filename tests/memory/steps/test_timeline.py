"""Steps stand on the timeline of their task, and its account is the sum of its assemblies."""

from typing import Any

from contextopt.agents.timeline.account import verify_account
from contextopt.agents.timeline.events import EventKind
from contextopt.agents.timeline.eventsources import read_events
from contextopt.assemblies.models import Assembly, AssemblyPayload
from contextopt.repositories.models import Repository
from tests.contextopt.agents.timeline.journeys import read_account

FAILURE = {"diagnosis": {"root_cause": "implementation_error"}, "files": {"shop/cart.py": "x = 1\n"}}


def test_a_step_is_a_context_and_its_retry_is_part_of_it(build: Any, shop: Repository) -> None:
    first = build(phase="planning")
    task = first.asked.task
    second = build(task_id=task.pk, phase="building", failure=FAILURE)
    page = read_events(task, kinds=frozenset(EventKind.values), cursor=None, limit=50)
    titles = [event.title for event in page.events]
    assert titles == ["Context sent", "Context sent", "Attempt 1 failed", "Retry with the changes"]
    planning, building, _, retry = page.events
    assert planning.note == "Standing documents, manifest, tree, files, memories and strategy hint"
    assert (building.label, building.sent_tokens) == ("building", second.certificate.tokens)
    assert (retry.sent_tokens, retry.baseline) == (None, "")
    assert retry.note == f"Part of the context of assembly {second.assembly.pk}"
    account = read_account(task)
    sent = first.certificate.tokens + second.certificate.tokens
    assert (account.assemblies, account.sent_tokens, account.saved_tokens) == (2, sent, None)
    assert sum(event.sent_tokens or 0 for event in page.events) == sent
    payloads = AssemblyPayload.objects.select_related("assembly").filter(assembly__task=task)
    assert list(verify_account(task.pk, payloads)) == []
    assert Assembly.objects.filter(task=task).count() == 2
