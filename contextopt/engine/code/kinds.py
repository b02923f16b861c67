"""Kinds of files that are ranked lower unless the task mentions them, recognised by their paths.

Documentation has the words of almost any task, but is seldom among the files that the task changes. Programs
write generated and built files, others maintain vendored ones, and templates have the headings of any issue.
"""

import re
from collections.abc import Mapping, Sequence, Set
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
GENERATED = "generated"
TEMPLATE = "template"

STEPS = {
    DOCUMENTATION: 0.8, EXAMPLE: 0.8, CHANGELOG: 0.8, MIGRATION: 1.0, GENERATED: 1.0, TEMPLATE: 1.0,
}  # fmt: skip
"""How far each kind is ranked lower, from 0 to 1."""
STEP_AFTER_MENTION = 0.5
"""The share of the step that remains if the task mentions the kind, but not in its first line."""

DAMPING = {GENERATED: 0.1, TEMPLATE: 0.1}
"""The share that the words of such a file count. A bundle would otherwise set the scale for all others."""
DAMPING_FOR_ISSUES = {CHANGELOG: 0.3}
"""The same if the task is the text of an issue. Users write in the same words as release notes."""

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
_RELEASE_FOLDERS = {
    "releases",
    "release-notes",
    "release_notes",
    "releasenotes",
    "whatsnew",
    "_posts",
    "blog",
}
_VENDORED = {
    "dist", "vendor", "_vendor", "vendored", "_vendored", "third_party", "third-party", "thirdparty",
    "node_modules", "bower_components", "site-packages", "pods", "generated", "__generated__", "_build",
}  # fmt: skip
_LOCKS = {
    "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "poetry.lock",
    "uv.lock", "pdm.lock", "pipfile.lock", "cargo.lock", "go.sum", "composer.lock", "gemfile.lock",
    "podfile.lock", "mix.lock", "pubspec.lock", "flake.lock",
}  # fmt: skip
_GENERATED_NAME = re.compile(
    r"[.-](?:min|bundle|chunk)\.(?:js|mjs|cjs|css)$|\.(?:js|mjs|cjs|css|ts)\.map$|_pb2(?:_grpc)?\.pyi?$"
    r"|\.pb\.(?:go|cc|h|dart)$|\.(?:g|freezed)\.dart$|\.designer\.cs$|[._](?:generated|gen)\.\w+$"
    r"|^zz_generated"
)
_TEMPLATE = re.compile(
    r"(?:^|/)(?:issue_templates?|pull_request_templates?|merge_request_templates?)(?:/|\.\w+$|$)"
)
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
    GENERATED: (
        "generated vendor vendored bundle bundled dist minified lockfile dependency dependencies bump "
        "deps requirement requirements upgrade avhengighet avhengigheter oppgrader"
    ),
    TEMPLATE: "template templates mal maler",
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


# Headings of the forms in which issues are reported.
_ISSUE_HEADING = re.compile(
    r"^[\s#*>_-]*(?:steps to reproduce|(?:how )?to reproduce|reproduction|expected (?:behaviou?r|results?)"
    r"|actual (?:behaviou?r|results?)|current behaviou?r|describe the (?:bug|issue|feature)|what happened"
    r"|bug report|feature request|environment|checklist|additional (?:context|information)|proposal)\b",
    re.MULTILINE | re.IGNORECASE,
)
_HEADING = re.compile(r"^#{1,5} \S", re.MULTILINE)
_ISSUE_LINES = 4


def is_issue_text(task: str) -> bool:
    """Return whether a task is the text of an issue: several lines below headings, as forms have them."""
    if sum(1 for line in task.splitlines() if line.strip()) < _ISSUE_LINES:
        return False
    return _ISSUE_HEADING.search(task) is not None or len(_HEADING.findall(task)) > 1


@lru_cache(maxsize=50_000)
def kind_by_path(path: str) -> str:
    """Return which of the kinds a file is, or ""."""
    lower = path.lower()
    *folders, name = lower.split("/")
    if _MIGRATION.search(lower):
        return MIGRATION
    stem, _, ending = name.rpartition(".") if "." in name[1:] else (name, "", "")
    if _TEMPLATE.search(lower):
        return TEMPLATE
    if _VENDORED.intersection(folders) or name in _LOCKS or _GENERATED_NAME.search(name):
        return GENERATED
    is_code = language_of(path) in CODE_LANGUAGES
    if not is_code and (stem in _CHANGELOGS or _RELEASE_FOLDERS.intersection(folders)):
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
    def of(cls, paths: Sequence[str], generated: Set[str] = frozenset()) -> Self:
        """Return the kinds of these files. Those in `generated` say themselves that a program wrote them."""
        places: dict[str, list[int]] = {kind: [] for kind in STEPS}
        named: dict[str, list[int]] = {}
        for place, path in enumerate(paths):
            if kind := GENERATED if path in generated else kind_by_path(path):
                places[kind].append(place)
                named.setdefault(path.rpartition("/")[2].lower(), []).append(place)
        return cls(
            len(paths), {kind: np.array(found, dtype=np.int64) for kind, found in places.items()}, named
        )

    def steps(self, task: str) -> NDArray[np.float64]:
        """Return how far each file is ranked lower for a task, shape (count,), from 0 to 1.

        It is 0 for a kind that the first line mentions, and for a file whose name is in the task.
        """
        steps = np.zeros(self.count)
        for kind, share in self._unmentioned(task).items():
            steps[self.places[kind]] = STEPS[kind] * share
        steps[self._named_in(task)] = 0.0
        return steps

    def damping(self, task: str) -> NDArray[np.float64]:
        """Return the share that each file's words count for a task, shape (count,), above 0 and at most 1."""
        shares = DAMPING | DAMPING_FOR_ISSUES if is_issue_text(task) else DAMPING
        damping = np.ones(self.count)
        for kind in self._unmentioned(task):
            damping[self.places[kind]] = shares.get(kind, 1.0)
        damping[self._named_in(task)] = 1.0
        return damping

    def _unmentioned(self, task: str) -> dict[str, float]:
        """Return the kinds that the task's first line does not mention, with the share of their step.

        The rest of an issue mentions too much to count.
        """
        title, _, _ = task.strip().partition("\n")
        in_title, in_task = distinct_terms(title), set() if is_issue_text(task) else distinct_terms(task)
        return {
            kind: STEP_AFTER_MENTION if in_task & _TERMS[kind] else 1.0
            for kind in self.places
            if not in_title & _TERMS[kind]
        }

    def _named_in(self, task: str) -> list[int]:
        """Return the places of files whose names are in the task."""
        names = set(_FILE_NAME.findall(task.lower()))
        return [place for name in names for place in self.named.get(name, ())]
