"""Kinds of files that are ranked lower unless the task mentions them, recognised by their paths.

Documentation has the words of almost any task, but is seldom among the files that the task changes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np
from numpy.typing import NDArray

from contextopt.engine.code.graph.parsing import CODE_LANGUAGES, language_of
from contextopt.engine.text.lexical import distinct_terms

DOCUMENTATION = "documentation"
EXAMPLE = "example"
CHANGELOG = "changelog"
MIGRATION = "migration"

STEPS = {DOCUMENTATION: 0.8, EXAMPLE: 0.8, CHANGELOG: 0.8, MIGRATION: 1.0}
"""How far each kind is ranked lower, from 0 to 1."""
STEP_AFTER_MENTION = 0.5
"""The share of the step that remains if the task mentions the kind, but not in its first line."""

# In the first folders, code is not what a task changes. In the second it may be, since `doc`, `demo` and
# `website` are also names of packages.
_FOLDERS = {
    EXAMPLE: {"example", "examples", "samples", "demos", "tutorials"},
    DOCUMENTATION: {"docs", "documentation"},
}
_FOLDERS_WITHOUT_CODE = {
    CHANGELOG: {"changelog", "changelog.d", "changelogs", "changes", "newsfragments", ".changeset"},
    EXAMPLE: {"sample", "demo", "tutorial"},
    DOCUMENTATION: {"doc", "manual", "website", "site", "wiki"},
}
# The names of migrations begin with a number, a date or a hash, unlike those of the code that runs them.
_MIGRATION = re.compile(
    r"(?:^|/)(?:migrations?|migrate|alembic)/(?:[^/]+/)*(?:[vu]?\d[^/]*|[0-9a-f]{12}_[^/]*|[^/]*\.sql)$"
)
_CHANGELOGS = {"changelog", "changes", "history", "news", "releases", "release-notes", "release_notes"}
_PROSE = {"md", "mdx", "markdown", "rst", "adoc", "asciidoc", "textile", "rdoc", "org"}
_PROSE_NAMES = {
    "readme",
    "authors",
    "contributing",
    "contributors",
    "license",
    "licence",
    "notice",
    "install",
}
_WORDS = {
    MIGRATION: "migration migrate migrering migreringer migreringen",
    CHANGELOG: "changelog release news endringslogg endringsloggen",
    EXAMPLE: "example sample demo tutorial eksempel eksempler eksempelet",
    DOCUMENTATION: (
        "docs documentation document readme typo spelling tutorial guide "
        "dokumentasjon dokumentasjonen dokumenter veiledning skrivefeil"
    ),
}
_TERMS = {kind: distinct_terms(words) for kind, words in _WORDS.items()}
# Without the lookbehind, a long word is tried from each of its letters, in quadratic time.
_FILE_NAME = re.compile(r"(?<![\w-])[\w-]++(?:\.[\w-]++)+")


@lru_cache(maxsize=50_000)
def kind_by_path(path: str) -> str:
    """Return which of the kinds a file is, or ""."""
    lower = path.lower()
    *folders, name = lower.split("/")
    if _MIGRATION.search(lower):
        return MIGRATION
    stem, _, ending = name.rpartition(".") if "." in name[1:] else (name, "", "")
    is_code = language_of(path) in CODE_LANGUAGES
    if not is_code and stem in _CHANGELOGS:
        return CHANGELOG
    for kind, names in _FOLDERS.items() if is_code else (*_FOLDERS.items(), *_FOLDERS_WITHOUT_CODE.items()):
        if names.intersection(folders):
            return kind
    is_prose = ending in _PROSE or (stem in _PROSE_NAMES and ending in ("", "txt"))
    return DOCUMENTATION if is_prose and not is_code else ""


@dataclass(frozen=True, slots=True)
class Kinds:
    """The places of the files that may be ranked lower, by kind and by file name, among `count` files."""

    count: int
    places: Mapping[str, NDArray[np.int64]]
    named: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, paths: Sequence[str]) -> Self:
        places: dict[str, list[int]] = {kind: [] for kind in STEPS}
        named: dict[str, list[int]] = {}
        for place, path in enumerate(paths):
            if kind := kind_by_path(path):
                places[kind].append(place)
                named.setdefault(path.rpartition("/")[2].lower(), []).append(place)
        return cls(
            len(paths), {kind: np.array(found, dtype=np.int64) for kind, found in places.items()}, named
        )

    def steps(self, task: str) -> NDArray[np.float64]:
        """Return how far each file is ranked lower for a task, shape (count,), from 0 to 1.

        It is 0 for a kind that the first line mentions, and for a file whose name is in the task.
        """
        title, _, _ = task.strip().partition("\n")
        in_title, in_task = distinct_terms(title), distinct_terms(task)
        steps = np.zeros(self.count)
        for kind, places in self.places.items():
            if not in_title & _TERMS[kind]:
                steps[places] = STEPS[kind] * (STEP_AFTER_MENTION if in_task & _TERMS[kind] else 1.0)
        for name in set(_FILE_NAME.findall(task.lower())):
            steps[list(self.named.get(name, ()))] = 0.0
        return steps
