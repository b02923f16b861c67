"""Known-item search: find a real record again by a few of its words.

A question consists of words from one record, drawn at random and in any order. The answer is that record.
After Azzopardi, de Rijke and Balog, "Building simulated queries for known-item topics", SIGIR 2007.
"""

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean

from django.test import override_settings

from benchmarks.agents.briefmaterial import PATH_LIST
from benchmarks.figures import Figure, Section
from benchmarks.retrieval.dialogues import Dialogue, load_dialogues
from benchmarks.retrieval.recall import row_of, use_model
from benchmarks.retrieval.recallrivals import Ranking, load_rivals
from benchmarks.spaces import say, space_of
from contextopt.people.models import Team
from contextopt.search import registry
from contextopt.search.embedders.current import configured_embedder
from contextopt.search.hybrid import Method, Target, prepare_query, search_all
from contextopt.search.registry import SearchFilters
from contextopt.spaces.inputs import RecordIn
from contextopt.spaces.models import Record, Space
from contextopt.spaces.spaces import delete_space

SETTINGS = ("wordllama", "minilm")
RECORDS = 2_000
"""Number of records per file, the newest ones."""
QUESTIONS = 60
"""Questions of each kind and file, if there are enough suitable records."""
DEPTH = 20
NEAR_TOP = 5
DIALOGUE = "dialogue"
"""The kind of question that is about a conversation."""
SEED = 5
OURS: dict[str, Method] = {"Contextopt": "rrf", "Contextopt, weighted sum": "weighted"}

# Most shorter words are articles and prepositions.
_WORD = re.compile(r"[^\W_][\w.]{2,}\w")
_VERSION = re.compile(r"(?<![\w.])\d+(?:\.\d+)+(?![\w.])")
_CONDITIONS = (
    "Mean reciprocal rank: 1 if the record is found first, ½ if second, 0 beyond the twentieth. A question "
    "has three words of a title, five of the notes, two of one and three of the other, or two of a title "
    "and the version in it. Only records with a unique title are asked about. Questions about dialogues are "
    "those of LoCoMo, and count as found with the first turn of their evidence."
)
_OTHERS = (
    "The others rank titles with notes: bm25s with its defaults, embeddings compared exactly, and the "
    "fusion of these two with k = 60."
)


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the records that answer it, by position. Finding one of them counts."""

    kind: str
    text: str
    places: frozenset[int]


@dataclass(frozen=True, slots=True)
class Collection:
    """The records of one file or dialogue, and the questions about them."""

    name: str
    rows: tuple[RecordIn, ...]
    questions: tuple[Question, ...]

    @property
    def texts(self) -> list[str]:
        return [f"{row.title}\n{row.notes}" for row in self.rows]


def measure_finding(team: Team, files: Sequence[Path], dialogues: Sequence[Path]) -> Section:
    collections = [read_collection(path) for path in files]
    for path in dialogues:
        collections += map(read_dialogue, load_dialogues(path))
    spaces = [space_of(team, f"finding-{each.name}", each.name, each.rows) for each in collections]
    figures: list[Figure] = []
    notes = [_CONDITIONS, _OTHERS]
    for setting in SETTINGS:
        with override_settings(EMBEDDING_MODEL=setting):
            use_model(spaces)
            found, remarks = _rank_all(collections, spaces)
        figures += _figures(setting, found)
        notes += [*remarks, *_describe(setting, found)]
    for space in spaces:
        delete_space(space=space)
    notes.append("; ".join(f"{len(each.rows):,} records of {each.name}" for each in collections) + ".")
    return Section("Finding a record again", tuple(figures), tuple(dict.fromkeys(notes)))


def read_collection(path: Path) -> Collection:
    with path.open(encoding="utf-8") as lines:
        rows = tuple(RecordIn.model_validate(json.loads(line)) for line in islice(lines, RECORDS))
    return Collection(path.stem, rows, tuple(make_questions(rows)))


def read_dialogue(dialogue: Dialogue) -> Collection:
    """Return the turns as records, with the questions that people wrote about them."""
    questions = [
        Question(
            DIALOGUE,
            question.text,
            frozenset(place for place, turn in enumerate(dialogue.turns) if turn.id in question.evidence),
        )
        for question in dialogue.questions
    ]
    return Collection(dialogue.name, tuple(map(row_of, dialogue.turns)), tuple(questions))


def make_questions(rows: Sequence[RecordIn]) -> Iterator[Question]:
    """Yield questions of each kind about different records, the same at each run."""
    rng = random.Random(SEED)
    titles = Counter(row.title for row in rows)
    places = [place for place, row in enumerate(rows) if titles[row.title] == 1]
    left = dict.fromkeys(("version", "title", "notes", "both"), QUESTIONS)
    for place in rng.sample(places, len(places)):
        for kind in [kind for kind, count in left.items() if count]:
            if text := _ask(kind, rows[place], rng):
                left[kind] -= 1
                yield Question(kind, text, frozenset([place]))
                break


def _ask(kind: str, row: RecordIn, rng: random.Random) -> str:
    """Return a question of the kind about the record, or "" if it has too few words."""
    # Lists of files are left out, since people do not remember them as prose.
    title, notes = _words(row.title), _words(PATH_LIST.sub("", row.notes))
    versions = _VERSION.findall(row.title)
    wanted = {
        "title": [(title, 3)],
        "notes": [(notes, 5)],
        "both": [(title, 2), (notes, 3)],
        "version": [(title, 2), (versions[:1], 1)],
    }[kind]
    if any(len(words) < count for words, count in wanted):
        return ""
    drawn = [word for words, count in wanted for word in rng.sample(words, count)]
    return " ".join(rng.sample(drawn, len(drawn)))


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(_WORD.findall(_VERSION.sub(" ", text))))


type Places = dict[tuple[str, str], list[int | None]]
"""For each kind of question and contender, the rank of each record from 1, None beyond DEPTH."""


def _rank_all(collections: Sequence[Collection], spaces: Sequence[Space]) -> tuple[Places, list[str]]:
    rivals, notes = load_rivals(configured_embedder(), None)
    found: Places = defaultdict(list)
    for collection, space in zip(collections, spaces, strict=True):
        asked = [question.text for question in collection.questions]
        rankings = {name: _search(space, collection, asked, method) for name, method in OURS.items()}
        rankings |= {
            rival.name: rival.rank(collection.texts, asked) for rival in rivals if rival.is_about_words
        }
        for name, ranked in rankings.items():
            for question, ranking in zip(collection.questions, ranked, strict=True):
                found[question.kind, name].append(_place(question.places, ranking))
        say(f"{collection.name}: {len(asked)} questions")
    return found, [note for note in notes if "mem0" not in note]


def _search(space: Space, collection: Collection, questions: Sequence[str], method: Method) -> list[Ranking]:
    ids = dict(Record.objects.filter(space=space).values_list("external_id", "pk"))
    places = {ids[row.external_id]: place for place, row in enumerate(collection.rows)}
    target = Target(registry.get("record"), space.pk, SearchFilters())
    found = (
        search_all(
            [target],
            prepare_query(text).choose([target]),
            limit=DEPTH,
            method=method,
            min_similarity=None,
            now=None,
        )
        for text in questions
    )
    return [[places[hit.id] for hit in hits] for hits in found]


def _place(wanted: frozenset[int], ranking: Ranking) -> int | None:
    return next((place for place, found in enumerate(ranking[:DEPTH], start=1) if found in wanted), None)


def _figures(setting: str, found: Places) -> Iterator[Figure]:
    for subject in ("records", "dialogues"):
        for name in _names(found):
            places = [
                place
                for (kind, other), some in found.items()
                if other == name and (kind == DIALOGUE) == (subject == "dialogues")
                for place in some
            ]
            if places:
                yield Figure(f"{setting}, {subject}: {name}", "", len(places), _worth(places))


def _describe(setting: str, found: Places) -> Iterator[str]:
    """Describe each contender by kinds of questions, and how often the record is near the top."""
    for name in _names(found):
        own = {kind: places for (kind, other), places in found.items() if other == name}
        kinds = ", ".join(f"{kind} {_worth(places):.2f}" for kind, places in own.items())
        near = fmean(place is not None and place <= NEAR_TOP for places in own.values() for place in places)
        yield f"{setting}, {name}: {kinds}; among the first {NEAR_TOP} {near:.0%}."


def _names(found: Places) -> Iterable[str]:
    return dict.fromkeys(name for _, name in found)


def _worth(places: Sequence[int | None]) -> float:
    """Return the mean reciprocal rank."""
    return fmean(1 / place if place else 0.0 for place in places)
