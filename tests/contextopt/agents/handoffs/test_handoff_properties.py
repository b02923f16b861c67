"""Whatever is added, decided and compressed in whatever order, nothing leaves a phase silently."""

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from contextopt.agents.handoffs.bundles import Bundle
from contextopt.agents.handoffs.compression import handed_findings
from contextopt.agents.handoffs.models import Finding, HandoffSettings, PhaseCompression
from contextopt.agents.models import HandoffPhase, Task
from contextopt.engine.briefs.compressor import SPECULATIVE_BELOW
from contextopt.people.models import Team
from tests import factories
from tests.contextopt.agents.handoffs.journeys import bundle_of, compress, resolve
from tests.contextopt.engine.briefs.test_brief_properties import ENDLESS

CONTENTS = ("Prices in shop/cart.py lose cents.", "Rounding fails.", "It may.", ENDLESS)
added = st.fixed_dictionaries(
    {
        "phase": st.sampled_from(HandoffPhase.values[:2]),
        "category": st.sampled_from(["risks", "constraints", "alternatives", "open_questions"]),
        "content": st.sampled_from(CONTENTS).map(lambda text: {"description": text}),
        "confidence": st.sampled_from([0.2, 0.4, 0.7, 0.95]),
        "tags": st.sampled_from([[], [], ["critical"], ["rejected"]]),
        "decision": st.sampled_from([None, None, "open"]),
    }
)
steps = st.lists(
    st.one_of(
        added,
        st.integers(1, 6).map(lambda number: ("resolve", number)),
        st.sampled_from([("compress",), ("advance",), ("read",)]),
    ),
    min_size=3,
    max_size=14,
)


class Journey(TestCase):
    """A task of a team whose briefs are short and whose limit of speculation is high."""

    team: Team

    @classmethod
    def setUpTestData(cls) -> None:
        cls.team = factories.make_team()
        for phase in HandoffPhase.values:
            HandoffSettings.objects.create(team=cls.team, phase=phase, brief_tokens=50, speculation_below=0.5)

    @settings(max_examples=25)
    @given(steps)
    def test_no_finding_is_lost_silently(self, moves: list[Any]) -> None:
        task = factories.make_task(self.team)
        bundles = [bundle_of(task) for move in moves if take(task, move)]
        while (phase := HandoffPhase(Task.objects.get(pk=task.pk).phase)).after:
            factories.make_finding(task, phase=phase)
            factories.make_advance(task, force=True)
            bundles.append(bundle_of(task))
        for finding in Finding.objects.filter(task=task, phase__in=HandoffPhase.IMPLEMENTATION.all_before):
            if finding.confidence >= SPECULATIVE_BELOW:
                assert any(hands_on(bundle, finding) for bundle in bundles), finding.key


def take(task: Task, move: Any) -> bool:
    """Make a move if it is possible; return whether the phase's bundle is read then."""
    phase = HandoffPhase(Task.objects.get(pk=task.pk).phase)
    match move:
        case dict():
            if HandoffPhase(move["phase"]) in (*phase.all_before, phase):
                factories.make_finding(task, **move)
        case ("resolve", number):
            if Finding.objects.filter(task=task, number=number).exclude(decision="").exists():
                resolve(task, number, f"Answer {number} of them.")
        case ("read",):
            return True
        case (kind,) if Finding.objects.filter(task=task, phase=phase).exists():
            acts: dict[str, Callable[..., object]] = {"compress": compress, "advance": factories.make_advance}
            if kind == "compress" or phase.after:
                acts[kind](task, force=True)
                return kind == "advance"
    return False


def hands_on(bundle: Bundle, finding: Finding) -> bool:
    """Return whether the bundle has the finding as it is now, or warns that it does not."""
    compression = bundle.compression
    if compression is None or finding.number not in compression.covered:
        return False
    if any(f"{finding.key} (" in warning.message for warning in bundle.warnings):
        return True
    values = {each.id: each for each in handed_findings(compression)}
    reasons = {each["id"]: each["reason"] for each in compression.discarded}
    name = reasons.get(finding.key, finding.key).removeprefix("duplicate_of ")
    if name not in values or name in reasons:
        return False
    value = values[name]
    return value.answer == finding.resolution and value.answer in bundle.text and _is_said(compression, name)


def _is_said(compression: PhaseCompression, name: str) -> bool:
    return name in compression.critical_findings or int(name[2:]) in compression.in_brief
