"""The texts of the demo's records: scenes with gaps, and words to fill them. The texts are in `texts/`."""

import random
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from contextopt.people.models import Team
from contextopt.spaces.models import Space

GAP = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Scene:
    """One kind of record. Every `{gap}` is filled from the story's words, the same in title and notes."""

    type: str
    tags: tuple[str, ...]
    title: str
    notes: str


@dataclass(frozen=True, slots=True)
class Guide:
    """A pinned record, used as it is."""

    title: str
    notes: str


@dataclass(frozen=True, slots=True)
class Story:
    """A demo space: its name, guides, scenes and words.

    `second_settings` become active after the first seventh of the demo's assemblies.
    """

    slug: str
    name: str
    description: str
    categories: tuple[str, ...]
    pinned: tuple[Guide, ...]
    scenes: tuple[Scene, ...]
    words: Mapping[str, tuple[str, ...]]
    records_a_day: int
    second_note: str
    second_settings: Mapping[str, object] = field(default_factory=dict)


def read_texts(name: str) -> dict[str, Any]:
    """Read a file of the demo's texts."""
    with (Path(__file__).parent / "texts" / f"{name}.toml").open("rb") as file:
        return tomllib.load(file)


def read_story(name: str) -> Story:
    return TypeAdapter(Story).validate_python(read_texts(name))


def tell(story: Story, number: int, rng: random.Random) -> Scene:
    """Fill the next scene's gaps. Scenes take turns, so that every kind of record appears regularly."""
    scene = story.scenes[(number * 7) % len(story.scenes)]
    chosen = {gap: rng.choice(words) for gap, words in story.words.items()}
    chosen["n"] = str(rng.randrange(2, 40))
    chosen["number"] = str(4_000 + number)

    def fill(text: str) -> str:
        return GAP.sub(lambda found: chosen[found[1]], text)

    tags = tuple(dict.fromkeys(fill(tag) for tag in scene.tags))
    return Scene(scene.type, tags, fill(scene.title), fill(scene.notes))


@dataclass(frozen=True, slots=True)
class Stage:
    """The setting of a chapter: the team, the demo's spaces by slug, and the moment."""

    team: Team
    spaces: Mapping[str, Space]
    now: datetime
    rng: random.Random


def _nothing(_team: Team) -> Mapping[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class Chapter:
    """`load` adds its data, `remove` deletes what does not go with the spaces, `count` counts its rows.

    A chapter that adds to another one's rows leaves removing and counting to it.
    """

    load: Callable[[Stage], None]
    remove: Callable[[Team], object] = _nothing
    count: Callable[[Team], Mapping[str, int]] = _nothing
