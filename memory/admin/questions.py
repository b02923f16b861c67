"""Question sets and their evaluations, read-only: the pages and the API change them."""

from django.contrib import admin

from contextopt.admin.base import ViewOnlyAdmin
from memory.models import Evaluation, QuestionSet


@admin.register(QuestionSet)
class QuestionSetAdmin(ViewOnlyAdmin):
    list_display = ("name", "space", "min_recall", "changed_at", "created_by", "created_at")
    list_filter = ("space",)
    list_select_related = ("space",)
    search_fields = ("name", "space__slug")
    ordering = ("-id",)


@admin.register(Evaluation)
class EvaluationAdmin(ViewOnlyAdmin):
    list_display = (
        "id", "question_set", "config_version", "state", "questions", "recall", "precision", "tokens_mean",
        "empty", "created_at",
    )  # fmt: skip
    list_filter = ("state", "question_set")
    list_select_related = ("question_set",)
    ordering = ("-id",)
