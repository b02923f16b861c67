"""`manage.py relevant_files REPO`"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from django.core.management.base import CommandParser
from pydantic import BaseModel, Field

from contextopt.errors import InvalidInput
from contextopt.inputs import Text
from contextopt.management.base import ACTOR, DONE, Options, more_in_json, team_of
from contextopt.management.documents import AnsweringCommand
from contextopt.management.fields import add_fields, given_fields, parse_input
from contextopt.management.repositories import Target, target, warn_if_shallow
from contextopt.people.models import Team
from contextopt.repositories.graphs import load_index
from contextopt.repositories.indexing import index_checkout
from contextopt.repositories.inputs import RelevantIn
from contextopt.repositories.relevantfiles import Relevant, RevisionRanker, rank_repository

LISTED = 20
REV_MAX = 1_000

type Rank = Callable[[str | None, RelevantIn], Relevant]


class Line(BaseModel):
    """The field that a line may have beside the task's own: the revision to start from."""

    rev: Annotated[Text, Field(max_length=REV_MAX)] | None = None


class Command(AnsweringCommand):
    help = (
        "Rank the files of a repository for a task and pack the best into a token budget. A folder is "
        "indexed up to its HEAD first; a name uses the existing index. With --rev, files and history are "
        "those of that revision and nothing is stored."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument(
            "repository", metavar="REPO", help="a folder, or the name of an indexed repository"
        )
        about = {
            "task": "description of the task",
            "seeds": "a file the task is about",
            "budget": "maximum tokens of the text",
            "limit": "number of files to list",
            "encoding": "the tokenizer",
            "model": "the model whose tokens are counted",
        }
        add_fields(parser, RelevantIn, about, seeds="--seed PATH")
        parser.add_argument("--rev", help="rank as of this branch, tag or commit")
        parser.add_argument(
            "--tasks", metavar="FILE.jsonl",
            help='a file with one {"id": …, "task": …, "rev": …} per line; prints one JSON line for each',
        )  # fmt: skip

    def run(self, options: Options) -> int:
        team = team_of(options)
        asked = given_fields(RelevantIn, options)
        many = options["tasks"] is not None
        if many and options["task"] is not None:
            raise InvalidInput.of("--task", "give --task or --tasks, not both")
        request = parse_input(RelevantIn, {"task": "-", **asked} if many else asked)
        # Name an unknown encoding once instead of on every line.
        request.tokenizer(team.pk)
        with target(team, options["repository"]) as found:
            warn_if_shallow(self, found.checkout)
            rank = _FileRanker(team, options["repository"], found).rank
            if many:
                return self.answer_lines(
                    options["tasks"], lambda own: _answer_line(own, options, asked, rank)
                )
            answer = rank(options["rev"], request)
        self.print_answer(options, answer.to_json(), describe_files(answer))
        return DONE


def describe_files(answer: Relevant) -> str:
    """Return the text itself, then the scores of its files."""
    lines = [answer.packed.text.rstrip("\n"), ""]
    for file in answer.ranked[:LISTED]:
        parts = ", ".join(f"{name} {part:.2f}" for name, part in file.parts.items())
        lines.append(f"{file.score:.3f}  {file.path}  ({parts})")
    lines += more_in_json(len(answer.ranked) - LISTED)
    return "\n".join([*lines, f"{answer.packed.tokens:,} of {answer.budget:,} tokens ({answer.encoding})"])


def _answer_line(
    own: Mapping[str, object], options: Options, asked: Mapping[str, object], rank: Rank
) -> dict[str, Any]:
    """Return the same answer as a single call. A line's settings override those of the command."""
    settings = dict(own)
    rev = Line.model_validate({"rev": settings.pop("rev", None)}).rev
    request = RelevantIn.model_validate({**asked, **settings})
    return rank(options["rev"] if rev is None else rev, request).to_json()


class _FileRanker:
    """Ranks from the stored index, or from the checkout if a revision is named."""

    def __init__(self, team: Team, name: str, found: Target) -> None:
        self._team = team
        self._name = name
        self._repository = found.repository
        self._checkout = found.checkout
        self._revisions: RevisionRanker | None = None
        # A name means the files as they were indexed, a folder the files as they are now.
        self._is_current = found.is_named

    def rank(self, rev: str | None, request: RelevantIn) -> Relevant:
        return self._rank_now(request) if rev is None else self._rank_at(rev, request)

    def _rank_now(self, request: RelevantIn) -> Relevant:
        if not self._is_current and self._checkout is not None:
            report = index_checkout(team=self._team, checkout=self._checkout, rev=None, actor=ACTOR)
            self._repository, self._is_current = report.repository, True
        if self._repository is None:
            raise InvalidInput.of("REPO", f"there is no repository {self._name!r}")
        return rank_repository(self._repository, request)

    def _rank_at(self, rev: str, request: RelevantIn) -> Relevant:
        if self._checkout is None:
            raise InvalidInput.of(
                "--rev", f"{self._name!r} is not read from a folder here, so it has no revisions"
            )
        if self._revisions is None:
            stored = load_index(self._repository) if self._repository is not None else None
            self._revisions = RevisionRanker(self._checkout, self._team.pk, stored)
        return self._revisions.rank(rev, request)
