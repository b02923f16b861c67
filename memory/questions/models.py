"""Questions with the records that answer them, and the results of asking them."""

from typing import Any, ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from contextopt.assemblies.models import Assembly
from contextopt.limits import ACTOR_MAX, NAME_MAX
from contextopt.people.models import Team
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.models import Record, Space
from memory.feedback.models import ANSWER_MAX

QUESTION_ID_MAX = 500
SETTINGS_KEY_CHARS = 32
FOUND = "found"


class QuestionSetQuerySet(models.QuerySet["QuestionSet"]):
    def in_space(self, space: Space) -> Self:
        """Return the space's sets, by name."""
        return self.filter(space=space).order_by("name", "id")

    def of(self, team: Team) -> Self:
        return self.filter(space__team=team)


class QuestionSet(models.Model):
    """Questions about one space.

    If `min_recall` is set, settings of the space are published only if they reach it. `changed_at` is the
    time of the last change of a question.
    """

    space = models.ForeignKey(Space, models.DB_CASCADE, related_name="question_sets", db_index=False)
    name = models.CharField(max_length=NAME_MAX)
    min_recall = models.FloatField(null=True, blank=True, help_text="0 to 1; blank: none")
    changed_at = models.DateTimeField(default=timezone.now)
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    objects = QuestionSetQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["space", "name"], name="question_set_once"),
            models.CheckConstraint(
                condition=Q(min_recall__gte=0, min_recall__lte=1), name="question_set_min_recall"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class QuestionSource(models.TextChoices):
    """The place that a question came from."""

    HAND = "hand", "By hand"
    FILE = "file", "File"
    VERDICT = "verdict", "Review verdict"
    VOTE = "vote", "Upvoted answer"


class Question(models.Model):
    """A question, and the records whose texts answer it.

    `answer` is the expected answer, if known. `assembly` is the one that the question was first asked with.
    """

    question_set = models.ForeignKey(QuestionSet, models.DB_CASCADE, related_name="questions", db_index=False)
    external_id = models.CharField(max_length=QUESTION_ID_MAX, blank=True)
    text = models.TextField()
    answer = models.TextField(blank=True, max_length=ANSWER_MAX)
    as_of = models.DateTimeField(null=True, blank=True)
    source = models.CharField(max_length=8, choices=QuestionSource, default=QuestionSource.HAND)
    assembly = models.ForeignKey(
        Assembly, models.DB_SET_NULL, null=True, blank=True, related_name="questions"
    )
    records: "models.ManyToManyField[Record, ExpectedRecord]" = models.ManyToManyField(
        Record, through="ExpectedRecord", related_name="+"
    )
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["question_set", "external_id"],
                condition=~Q(external_id=""),
                name="question_imported_once",
            ),
            models.UniqueConstraint(
                fields=["question_set", "assembly"],
                condition=Q(assembly__isnull=False),
                name="question_assembly_once",
            ),
            models.CheckConstraint(condition=Q(source__in=QuestionSource.values), name="question_source"),
        ]
        indexes: ClassVar = [
            # Lists of a set, and the order in which an evaluation asks.
            models.Index(fields=["question_set", "id"], name="question_newest"),
        ]

    def __str__(self) -> str:
        return self.text[:80]

    @property
    def name(self) -> str:
        """The id that it was imported with, or else its number."""
        return self.external_id or str(self.pk)


class ExpectedRecord(models.Model):
    """A record that answers a question, fully or in part."""

    question = models.ForeignKey(Question, models.DB_CASCADE, related_name="expected", db_index=False)
    record = models.ForeignKey(Record, models.DB_CASCADE, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["question", "record"], name="expected_record_once"),
        ]

    def __str__(self) -> str:
        return f"record {self.record_id} for question {self.question_id}"


class EvaluationState(models.TextChoices):
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"


class EvaluationQuerySet(models.QuerySet["Evaluation"]):
    def newest_first(self) -> Self:
        return self.order_by("-created_at", "-id")

    def running(self) -> Self:
        return self.filter(state=EvaluationState.RUNNING)

    def done(self) -> Self:
        return self.filter(state=EvaluationState.DONE)

    def published(self) -> Self:
        """Evaluations of versions that are or were active, with the space's own budget."""
        versions = ContextConfig.objects.filter(
            space=OuterRef("question_set__space"), version=OuterRef("config_version"), is_draft=False
        )
        return self.filter(Exists(versions), context_tokens=None)

    def of_settings(self, key: str) -> Self:
        """Evaluations of these settings with the space's own budget."""
        return self.filter(settings_key=key, context_tokens=None)

    def newest_by_set(self) -> "dict[int, Evaluation]":
        """Return the newest evaluation of each question set, by the set's id."""
        newest = self.order_by("question_set_id", "-created_at", "-id").distinct("question_set_id")
        return {each.question_set_id: each for each in newest}


class Evaluation(models.Model):
    """All questions of a set asked under one version of the settings, or under a draft.

    Recall, precision and evidence shown are means over the questions, 0 to 1. `settings_key` is equal for
    equal settings.
    """

    question_set = models.ForeignKey(
        QuestionSet, models.DB_CASCADE, related_name="evaluations", db_index=False
    )
    config_version = models.PositiveIntegerField(null=True, help_text="blank: a draft")
    settings = models.JSONField(encoder=DjangoJSONEncoder)
    settings_key = models.CharField(max_length=SETTINGS_KEY_CHARS)
    context_tokens = models.PositiveIntegerField(null=True, help_text="blank: as the settings say")
    state = models.CharField(max_length=8, choices=EvaluationState, default=EvaluationState.RUNNING)
    error = models.TextField(blank=True)
    questions = models.PositiveIntegerField(default=0, help_text="to ask in all")
    asked = models.PositiveIntegerField(default=0, help_text="asked so far")
    recall = models.FloatField(null=True)
    precision = models.FloatField(null=True)
    # Null also if the evaluation is older than the figure.
    evidence_shown = models.FloatField(null=True)
    tokens_mean = models.FloatField(null=True)
    empty = models.PositiveIntegerField(default=0, help_text="contexts without records")
    created_by = models.CharField(max_length=ACTOR_MAX, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    worked_at = models.DateTimeField(default=timezone.now, help_text="last question asked")
    finished_at = models.DateTimeField(null=True)

    objects = EvaluationQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(state__in=EvaluationState.values), name="evaluation_state"),
            models.CheckConstraint(
                condition=~Q(state=EvaluationState.DONE)
                | Q(recall__isnull=False, precision__isnull=False, tokens_mean__isnull=False),
                name="evaluation_done",
            ),
        ]
        indexes: ClassVar = [
            # Lists of a set, and its newest evaluation.
            models.Index(fields=["question_set", "-created_at", "-id"], name="evaluation_newest"),
            # Evaluations that a worker must go on with.
            models.Index(
                fields=["id"], condition=Q(state=EvaluationState.RUNNING), name="evaluation_running"
            ),
        ]

    def __str__(self) -> str:
        return f"evaluation {self.pk}"

    @property
    def is_draft(self) -> bool:
        return self.config_version is None

    @property
    def is_running(self) -> bool:
        return self.state == EvaluationState.RUNNING

    @property
    def is_done(self) -> bool:
        return self.state == EvaluationState.DONE


class EvaluatedQuestion(models.Model):
    """One question's context. `outcomes` says for each expected record whether it was found, or why not."""

    evaluation = models.ForeignKey(Evaluation, models.DB_CASCADE, related_name="results", db_index=False)
    question = models.ForeignKey(Question, models.DB_CASCADE, related_name="results")
    recall = models.FloatField()
    precision = models.FloatField()
    evidence_shown = models.FloatField(null=True)
    tokens = models.PositiveIntegerField()
    is_empty = models.BooleanField()
    outcomes = models.JSONField(default=list)
    warning_codes = ArrayField(models.CharField(max_length=32), default=list)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["evaluation", "question"], name="evaluated_question_once"),
        ]

    def __str__(self) -> str:
        return f"question {self.question_id} in evaluation {self.evaluation_id}"

    @property
    def missed(self) -> list[dict[str, Any]]:
        return [outcome for outcome in self.outcomes if outcome["outcome"] != FOUND]
