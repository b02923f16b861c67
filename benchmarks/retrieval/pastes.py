"""Stage 5 on real prompts: does a paste around a question hide the question?

Each question is asked alone and with a paste of each kind before, after or around it. Half of the kinds were
set aside: the rules that tell pastes from prose were written without them.
"""

import random
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from time import perf_counter

from django.test import override_settings

from benchmarks.figures import Figure, Sample, Section, at_least, at_most
from benchmarks.retrieval.dialogues import Dialogue, Question, load_dialogues
from benchmarks.retrieval.evidence import measure_context
from benchmarks.retrieval.recall import KINDS as CONVERSATIONS
from benchmarks.retrieval.recall import context_of, row_of, use_model
from benchmarks.service.recount import Recount
from benchmarks.spaces import say, space_of
from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.engine.values import NOTHING_RELEVANT
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from contextopt.spaces.spaces import delete_space

BUDGETS = (1_000, 2_000)
LEAST_SHARE = 0.95
"""Least recall with a paste, relative to that of the bare question."""
MOST_WARNED, LEAST_WARNED = 0.03, 0.90
"""Most questions about the conversation that nothing seems to be about, and the least about another one."""
_TEXTS = Path(__file__).parents[1] / "data" / "pastes.toml"
_FILL = re.compile(r"\{([nwWh])\}")
_NAMES = """
anchor basket canvas drawer engine filter gravel hammer island jacket kettle ladder magnet needle orchid
parcel quartz ribbon saddle tablet umbrella valve wagon yarn zipper bottle carpet dollar ferry goblet
harbour invoice
"""
_WORDS = _NAMES.split()
PLACES = ("after", "before", "around")
SIZES = (300, 2_500, 10_000)
"""Characters of a paste, at least."""


@dataclass(frozen=True, slots=True)
class Paste:
    """A kind of paste; `group` is shared by kinds that resemble each other."""

    kind: str
    group: str
    head: str
    body: str
    tail: str
    is_set_aside: bool = False

    def write(self, chars: int, rng: random.Random) -> str:
        """Return a paste of about this many characters, with other names and numbers each time."""
        parts = [_filled(self.head, rng)]
        while sum(map(len, parts)) < chars:
            parts.append(_filled(self.body, rng))
        return "".join([*parts, _filled(self.tail, rng)]).strip("\n")


def load_pastes() -> list[Paste]:
    return [Paste(**each) for each in tomllib.loads(_TEXTS.read_text())["paste"]]


def _filled(text: str, rng: random.Random) -> str:
    values: dict[str, Callable[[], str]] = {
        "n": lambda: str(rng.randint(10, 99)),
        "w": lambda: rng.choice(_WORDS),
        "W": lambda: rng.choice(_WORDS).capitalize(),
        "h": lambda: f"{rng.getrandbits(32):08x}",
    }
    return _FILL.sub(lambda match: values[match[1]](), text)


def prompt_with(question: str, paste: Paste, place: str, chars: int, rng: random.Random) -> str:
    """Return the question with a paste after, before or around it."""
    gap = "\n\n" if paste.group == "prose" else rng.choice(["\n", "\n\n"])
    if place == "around":
        half = chars // 2
        return gap.join([paste.write(half, rng), question, paste.write(half, rng)])
    pasted = paste.write(chars, rng)
    return gap.join([question, pasted] if place == "after" else [pasted, question])


@dataclass(frozen=True, slots=True)
class _Answer:
    """The recall of a context, whether nothing seemed to be about the question, and its time."""

    recall: float
    is_warned: bool
    ms: float


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question alone and with a paste, by budget. `is_foreign_warned` says whether nothing seemed to be
    about it in another conversation, None where that is not asked.
    """

    bare: Mapping[int, "_Answer"]
    pasted: Mapping[int, "_Answer"]
    is_foreign_warned: bool | None

    @property
    def is_warned(self) -> bool:
        return self.pasted[BUDGETS[0]].is_warned

    @property
    def ms(self) -> float:
        """The milliseconds that the paste adds."""
        return fmean(self.pasted[budget].ms - self.bare[budget].ms for budget in BUDGETS)


type _Results = dict[tuple[str, Paste], list[_Asked]]


@dataclass(frozen=True, slots=True)
class _Run:
    """One model on the spaces of all conversations."""

    spaces: Mapping[str, Space]
    recount: Recount

    def ask(self, dialogue: Dialogue, question: Question, text: str, budget: int) -> _Answer:
        request = AssemblyIn(
            space=self.spaces[dialogue.name].slug, query=text, as_of=dialogue.ended_at, context_tokens=budget
        )
        started = perf_counter()
        result = assemble_space(
            team_id=self.spaces[dialogue.name].team_id, request=request, actor="benchmarks", store=False
        )
        ms = (perf_counter() - started) * 1_000
        self.recount.check(result.text, budget=budget, certificate=result.certificate.to_json())
        own = question.evidence & {turn.id for turn in dialogue.turns}
        recall = measure_context(dialogue, question, context_of(result), budget).recall if own else 0.0
        return _Answer(recall, NOTHING_RELEVANT in {warning.code for warning in result.warnings}, ms)


def measure_pastes(
    team: Team, paths: Sequence[Path], *, models: Sequence[str], questions: int, recount: Recount
) -> Section:
    """Ask this many questions of each set of conversations with each kind of paste."""
    dialogues = [dialogue for path in paths for dialogue in load_dialogues(path)]
    spaces = {
        each.name: space_of(team, f"pasted-{each.name}", each.name, map(row_of, each.turns))
        for each in dialogues
    }
    figures: list[Figure] = []
    conditions = (
        f"{questions} questions of each set with each kind of paste, relative to the bare question's recall "
        f"at {BUDGETS[0]:,} and {BUDGETS[1]:,} tokens. A paste has {SIZES[0]} to {SIZES[-1]:,} characters."
    )
    notes = [conditions]
    for model in models:
        with override_settings(EMBEDDING_MODEL=model):
            use_model(list(spaces.values()))
            results = _measure(_Run(spaces, recount), dialogues, questions)
        say(f"{model}: {sum(map(len, results.values()))} prompts")
        figures += _figures(model, results)
        notes += _describe(model, results)
    for space in spaces.values():
        delete_space(space=space)
    return Section("Pastes: what they hide of a question", tuple(figures), tuple(notes))


def _measure(run: _Run, dialogues: Sequence[Dialogue], questions: int) -> _Results:
    results: _Results = defaultdict(list)
    pastes = load_pastes()
    for kind in CONVERSATIONS:
        own = [dialogue for dialogue in dialogues if dialogue.name.startswith(kind.prefix)]
        rng = random.Random(kind.name)
        asked = [(dialogue, question) for dialogue in own for question in dialogue.questions]
        for number, (dialogue, question) in enumerate(rng.sample(asked, min(questions, len(asked)))):
            others = [other for other in own if other is not dialogue] if kind.prefix == "conv-" else []
            bare = {budget: run.ask(dialogue, question, question.text, budget) for budget in BUDGETS}
            for turn, paste in enumerate(pastes):
                place, size = PLACES[(number + turn) % 3], SIZES[(number // 3 + turn) % 3]
                text = prompt_with(question.text, paste, place, size, rng)
                pasted = {budget: run.ask(dialogue, question, text, budget) for budget in BUDGETS}
                other = rng.choice(others) if others else None
                warned = run.ask(other, question, text, BUDGETS[0]).is_warned if other else None
                results[kind.name, paste].append(_Asked(bare, pasted, warned))
    return results


def _share(asked: Sequence[_Asked], budget: int) -> float:
    """Return the recall with pastes, relative to that of the bare questions."""
    bare = sum(each.bare[budget].recall for each in asked)
    return sum(each.pasted[budget].recall for each in asked) / bare if bare else 1.0


def _figures(model: str, results: _Results) -> Iterator[Figure]:
    """Yield the figures of the kinds that were set aside, which have bars, and of the others."""
    for name in dict.fromkeys(name for name, _ in results):
        for aside in (True, False):
            asked = [
                each
                for (own, paste), some in results.items()
                if own == name and paste.is_set_aside == aside
                for each in some
            ]
            what = f"{name}, {model}, {'kinds set aside' if aside else 'other kinds'}"
            for budget in BUDGETS:
                share = _share(asked, budget)
                bar = at_least(LEAST_SHARE, share, f"≥ {LEAST_SHARE:g}") if aside else None
                yield Figure(f"{what}, {budget:,} tokens", "", len(asked), share, bar=bar)
            warned = fmean(each.is_warned for each in asked)
            bar = at_most(MOST_WARNED, warned, f"≤ {MOST_WARNED:g}")
            yield Figure(f"{what}, nothing relevant", "", len(asked), warned, bar=bar)
            foreign = [each.is_foreign_warned for each in asked if each.is_foreign_warned is not None]
            if foreign:
                share = fmean(foreign)
                bar = at_least(LEAST_WARNED, share, f"≥ {LEAST_WARNED:g}")
                yield Figure(f"{what}, another conversation", "", len(foreign), share, bar=bar)
            times = Sample(tuple(each.ms for each in asked))
            yield Figure.of(f"{what}, time that a paste adds", times)


def _describe(model: str, results: _Results) -> Iterator[str]:
    """Yield a note for each kind of paste: the share at each budget in each set, and the time added."""
    for paste in dict.fromkeys(paste for _, paste in results):
        shares = [
            f"{name} {' / '.join(f'{_share(asked, budget):.2f}' for budget in BUDGETS)}"
            for (name, own), asked in results.items()
            if own is paste
        ]
        aside = " (set aside)" if paste.is_set_aside else ""
        added = median(each.ms for (_, own), asked in results.items() if own is paste for each in asked)
        yield f"{model}, {paste.kind}{aside}: {', '.join(shares)}, {added:.0f} ms."
