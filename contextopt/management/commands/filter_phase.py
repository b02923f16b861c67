"""`manage.py filter_phase PHASE FILE.json`"""

from django.core.management.base import CommandParser

from contextopt.agents.inputs import AgentContextIn, PhaseNamed
from contextopt.agents.phases import FilterResult, figures, filter_agent_context
from contextopt.assemblies.models import FULL_CONTEXT
from contextopt.engine.text.tokens import get_counter, get_tokenizer
from contextopt.management.base import ACTOR, DONE, Options, team_of
from contextopt.management.documents import DocumentCommand, read_document
from contextopt.management.fields import add_fields, read_fields


class Command(DocumentCommand):
    help = (
        "Filter an agent's full context to the fields a phase needs, within the phase's budget. FILE.json is "
        "an object with any of tree, tree_paths, package_manifest, files, memories, docs, tools and task."
    )

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument(
            "phase",
            metavar="PHASE",
            help="confidence, planning, building, diagnosis, reviewing, completing, or a phase of the team",
        )
        super().add_options(parser)
        add_fields(parser, PhaseNamed, {"task_id": "stored task that the context is for"})

    def run(self, options: Options) -> int:
        named = read_fields(PhaseNamed, options)
        result = filter_agent_context(
            team_id=team_of(options).pk,
            phase=named.phase,
            context=read_document(AgentContextIn, options["file"]).to_value(place=""),
            counter=get_counter(options["counter"], get_tokenizer(options["encoding"])),
            actor=ACTOR,
            task_id=named.task_id,
            store=not options["no_log"],
        )
        self.print_answer(options, figures(result.outcome), describe_filtering(result))
        return DONE


def describe_filtering(result: FilterResult) -> str:
    """Return the text itself, then its cost and its saving."""
    outcome, certificate = result.outcome, result.certificate
    size = f"{outcome.filtered_tokens:,} of {outcome.full_tokens:,} tokens ({certificate.encoding})"
    saved = f"{outcome.saved_tokens:,} saved ({outcome.saved_percent} %) against {FULL_CONTEXT}"
    budget = "no budget" if outcome.budget_tokens is None else f"a budget of {outcome.budget_tokens:,}"
    version = f"profile v{result.profile_version}" if result.profile_version else "the default profile"
    profile = "no profile" if outcome.budget_tokens is None else version
    logged = "not logged" if result.id is None else f"logged as assembly {result.id}"
    return "\n".join(
        [
            result.text.rstrip("\n"),
            "",
            f"{size}, {saved}, {budget}",
            f"Phase {outcome.phase}, {profile}, {logged}",
            f"SHA-256 {certificate.sha256}",
            *(f"Warning: {warning}" for warning in outcome.warnings),
        ]
    ).lstrip("\n")
