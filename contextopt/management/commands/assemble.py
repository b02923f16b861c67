"""`manage.py assemble SPACE`"""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser

from contextopt.assemblies.assemble import assemble_space
from contextopt.assemblies.inputs import AssemblyIn
from contextopt.assemblies.results import AssemblyResult
from contextopt.assemblies.tokenfactors import choose_tokenizer
from contextopt.engine.settings import REQUESTED, SEARCH_STAGE
from contextopt.engine.validation import Setting
from contextopt.errors import InvalidInput
from contextopt.management.base import ACTOR, DONE, space_of, team_of
from contextopt.management.documents import AnsweringCommand
from contextopt.management.fields import add_fields, given_fields, parse_input
from contextopt.management.ledgertext import describe_result
from contextopt.management.upkeep import make_searchable
from contextopt.people.models import Team
from contextopt.spaces.models import Space
from contextopt.spaces.records import SEARCHABLE, tokenizer_of


def _describe(setting: Setting) -> str:
    about = (setting.request_about or setting.about).removesuffix(".")
    return f"{about[0].lower()}{about[1:]}"


ABOUT = {
    "query": "the question to rank by (stage 5)",
    "system_tokens": "tokens of the system prompt",
    "history_tokens": "tokens of the conversation so far",
    "as_of": "assemble as of this date or date-time",
    "model": "the model that the prompt is for",
    "window_share": "limit the context to a share of the model's window",
    "placement": "where the context goes in a conversation's prompt",
    "conversation": "the conversation that the prompt belongs to",
    "carried_tokens": "bound on what stays in sight (default: 4 × the context's)",
} | {name: _describe(setting) for name, setting in REQUESTED.items()}


class Command(AnsweringCommand):
    help = (
        "Build the context that a space gives a prompt, and show why each record was kept or dropped. "
        "Options override the space's settings. The assembly is logged unless you pass --no-log."
    )

    _is_searchable = False

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("space", metavar="SPACE")
        parser.add_argument(
            "--stage", type=int, choices=[2, 3, 4, 5],
            help="2 no records, 3 the last 10, 4 scored and budgeted, 5 by a question "
            "(default: 5 with --query, else 4)",
        )  # fmt: skip
        add_fields(parser, AssemblyIn, ABOUT, conversation="--conversation ID")
        parser.add_argument(
            "--in-sight", metavar="ID,ID",
            help="the assemblies whose blocks the conversation still holds (append, auto)",
        )  # fmt: skip
        parser.add_argument("--no-log", action="store_true", help="preview only, don't log the assembly")
        parser.add_argument(
            "--queries", metavar="FILE.jsonl",
            help='a file with one {"id": …, "query": …, other fields} per line; prints one JSON line each',
        )  # fmt: skip

    def run(self, options: Mapping[str, Any]) -> int:
        team = team_of(options)
        asked = given_fields(AssemblyIn, options)
        if "in_sight" in asked:
            asked["in_sight"] = asked["in_sight"].split(",")
        request = parse_input(AssemblyIn, asked, {"space": "SPACE"})
        space = space_of(team, request.space)
        # Loading the tokenizer's data takes longer than an assembly, so load it before time is measured.
        choose_tokenizer(
            team.pk,
            model=request.model,
            encoding=request.overrides.get("encoding"),
            usual=tokenizer_of(space).name,
        ).count("ready")
        if options["queries"] is not None:
            return self.answer_lines(
                options["queries"],
                lambda own: self._answer(options, team, space, {**asked, **own}),
                space=space.slug,
            )
        self._prepare(space, request)
        result = self._assemble(team, request, options)
        self.print_answer(options, result.to_json(), describe_result(result))
        return DONE

    def _assemble(self, team: Team, request: AssemblyIn, options: Mapping[str, Any]) -> AssemblyResult:
        return assemble_space(team_id=team.pk, request=request, actor=ACTOR, store=not options["no_log"])

    def _prepare(self, space: Space, request: AssemblyIn) -> None:
        """Make newly imported records searchable, once and only if there is a question."""
        if request.effective_stage == SEARCH_STAGE and not self._is_searchable:
            make_searchable(self.stderr, SEARCHABLE, space.pk)
            self._is_searchable = True

    def _answer(
        self, options: Mapping[str, Any], team: Team, space: Space, asked: Mapping[str, object]
    ) -> dict[str, Any]:
        """Return the same answer as a single call, but without `id`, which names the line."""
        if "query" not in asked and asked.get("stage", SEARCH_STAGE) == SEARCH_STAGE:
            raise InvalidInput.of("query", "is missing")
        request = AssemblyIn.model_validate(asked)
        self._prepare(space, request)
        answer = self._assemble(team, request, options).to_json()
        answer["assembly_id"] = answer.pop("id")
        return answer
