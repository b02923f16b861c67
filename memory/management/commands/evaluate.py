"""`manage.py evaluate SPACE`"""

from django.core.management.base import CommandParser

from contextopt.engine.wording import plural
from contextopt.errors import Conflict
from contextopt.management.base import (
    ACTOR,
    DONE,
    REJECTED,
    Options,
    Progress,
    ReportingCommand,
    more_in_json,
    space_of,
    team_of,
)
from contextopt.management.fields import add_fields, read_fields
from contextopt.management.upkeep import make_searchable
from contextopt.spaces.configs import find_config
from contextopt.spaces.models import Space
from contextopt.spaces.records import SEARCHABLE
from memory.questions.evaluationresults import MISSES, result_json, result_rows
from memory.questions.evaluations import EVALUATIONS, reaches, start_evaluation
from memory.questions.inputs import EvaluationIn, Recall
from memory.questions.models import EvaluatedQuestion, Evaluation, EvaluationState
from memory.questions.sets import find_named_set

MISSES_SHOWN = 20


class Asked(EvaluationIn):
    """An evaluation, and the recall that it must reach."""

    min_recall: Recall | None = None


class Command(ReportingCommand):
    help = (
        "Ask every question of a question set, and report how many of the records that answer them the "
        "contexts hold. The contexts are not logged as prompts. With --min-recall the exit code is 1 if the "
        "recall is lower, so a build can fail on it."
    )

    evaluation: Evaluation | None = None

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("space", metavar="SPACE")
        parser.add_argument(
            "--questions", metavar="NAME", help="name of the question set (default: the space's only one)"
        )
        about = {
            "config_version": "config version (default: the active one)",
            "context_tokens": "budget of each context",
            "min_recall": "the minimum recall",
        }
        add_fields(parser, Asked, about, config_version="--config VERSION")

    def run(self, options: Options) -> int:
        asked = read_fields(Asked, options)
        space = space_of(team_of(options), options["space"])
        question_set = find_named_set(space, options["questions"])
        config = (
            find_config(space, asked.config_version) if asked.config_version else space.configs.active().get()
        )
        make_searchable(self.stderr, SEARCHABLE, space.pk)
        evaluation = self.evaluation = start_evaluation(
            question_set=question_set,
            settings=config.settings,
            config_version=config.version,
            context_tokens=asked.context_tokens,
            actor=ACTOR,
        )
        progress = Progress(self.stderr)
        EVALUATIONS.complete(
            evaluation, lambda so_far: progress.show(f"{so_far.asked:,} of {so_far.questions:,} asked")
        )
        if evaluation.state != EvaluationState.DONE:
            raise Conflict(evaluation.error)
        self._answer(options, space, evaluation)
        minimum = asked.min_recall
        if minimum is None or reaches(evaluation.recall, minimum):
            return DONE
        self.stderr.write(f"Recall {evaluation.recall:.3f} is below the minimum of {minimum:.3f}.")
        return REJECTED

    def how_far(self) -> str:
        asked = self.evaluation.asked if self.evaluation else 0
        return f"Interrupted after {plural(asked, 'question')}. A worker asks the rest."

    def _answer(self, options: Options, space: Space, evaluation: Evaluation) -> None:
        results = result_rows(evaluation).order_by("question_id")
        figures = ("questions", "recall", "precision", "evidence_shown", "tokens_mean", "empty")
        answer = {
            **{name: getattr(evaluation, name) for name in figures},
            "per_question": [result_json(row) for row in results],
        }
        text = (
            f"{evaluation.question_set.name} in {space.name}, config v{evaluation.config_version}: "
            f"recall {evaluation.recall:.3f}, precision {evaluation.precision:.3f}, "
            f"evidence shown {evaluation.evidence_shown:.3f}, "
            f"{evaluation.tokens_mean:,.0f} tokens on average, {evaluation.empty:,} empty, "
            f"{plural(evaluation.questions, 'question')}"
        )
        missed = [_describe(row) for row in results if row.recall < 1]
        more = more_in_json(len(missed) - MISSES_SHOWN)
        self.print_answer(options, answer, "\n".join([text, *missed[:MISSES_SHOWN], *more]))


def _describe(row: EvaluatedQuestion) -> str:
    lost = ", ".join(f"{each['external_id'] or each['id']} {MISSES[each['outcome']]}" for each in row.missed)
    question = row.question
    return f"{row.recall:.2f}  {question.name}  {' '.join(question.text.split())[:80]}  ({lost})"
