"""Memories, votes, reviews, question sets and backtests in the admin.

Most are read-only here: people change their own votes and verdicts, and pages and API change the rest. The
rules of a team are edited.
"""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from unfold.enums import ActionVariant
from unfold.forms import BaseDialogForm

from contextopt.admin.base import PurgeForm, RulesAdmin, ViewOnlyAdmin, action, actor, display, view_only
from contextopt.errors import Conflict
from memory.backtests.models import Backtest
from memory.feedback.models import ExternalMessage, Vote
from memory.memories.memories import delete_memory, restore_memory
from memory.memories.models import Memory, MemoryEmbedding
from memory.memories.purge import purge_memory
from memory.memories.rules import HalfLife, MemoryPolicy
from memory.questions.models import Evaluation, QuestionSet
from memory.review.models import ReviewItem, ReviewRules
from memory.strategies.models import StrategyUse, TrustChange
from memory.strategies.strategies import reinstate_strategy, retire_strategy


@admin.register(Memory)
class MemoryAdmin(ViewOnlyAdmin):
    list_display = (
        "id", "shown_content", "memory_type", "trust_level", "trust", "repository", "team", "retired_at",
        "deleted_at", "purged_at", "created_at",
    )  # fmt: skip
    list_display_links = ("id", "shown_content")
    list_filter = ("memory_type", "trust_level", "team")
    list_select_related = ("team",)
    search_fields = ("=repository", "=category")
    search_help_text = "A repository or category."
    exclude = ("search_vector",)
    ordering = ("-id",)
    actions = ("retire", "reinstate", "delete", "restore")
    actions_detail = ("purge",)

    @display(description="Content")
    def shown_content(self, memory: Memory) -> str:
        return str(memory)

    @action(description="Retire")
    def retire(self, request: HttpRequest, rows: QuerySet[Memory]) -> None:
        for memory in rows:
            retire_strategy(memory=memory, reason="retired in the admin", actor=actor(request))

    @action(description="Reinstate")
    def reinstate(self, request: HttpRequest, rows: QuerySet[Memory]) -> None:
        for memory in rows:
            try:
                reinstate_strategy(memory=memory, actor=actor(request))
            except Conflict as error:
                self.message_user(request, str(error), "warning")

    @action(description="Delete")
    def delete(self, request: HttpRequest, rows: QuerySet[Memory]) -> None:
        for memory in rows:
            delete_memory(memory=memory, actor=actor(request))

    @action(description="Restore")
    def restore(self, request: HttpRequest, rows: QuerySet[Memory]) -> None:
        for memory in rows:
            try:
                restore_memory(memory=memory, actor=actor(request))
            except Conflict as error:
                self.message_user(request, str(error), "warning")

    @action(
        description="Purge",
        permissions=["purge"],
        variant=ActionVariant.DANGER,
        dialog={
            "title": "Purge this memory?",
            "description": "Erases its text from the memory and all stored contexts. No undo.",
            "form_class": PurgeForm,
            "form_submit_text": "Purge",
        },
    )
    def purge(self, request: HttpRequest, form: BaseDialogForm, object_id: str) -> HttpResponse:  # noqa: ARG002
        memory = purge_memory(memory=get_object_or_404(Memory, pk=object_id), actor=actor(request))
        self.log_change(request, memory, "Purged.")
        self.message_user(request, "The memory's text has been erased.")
        # htmx sends the dialog and follows this header.
        address = reverse(f"{self.admin_site.name}:memory_memory_change", args=[memory.pk])
        return HttpResponse(headers={"HX-Redirect": address})

    def has_purge_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:  # noqa: ARG002
        """Rows cannot be deleted here, but whoever may delete memories may purge them."""
        return bool(request.user.has_perm("memory.delete_memory"))


@admin.register(HalfLife)
class HalfLifeAdmin(RulesAdmin):
    list_display = ("memory_type", "days", "team")
    list_filter = ("team",)
    ordering = ("team", "memory_type")


@admin.register(MemoryPolicy)
class MemoryPolicyAdmin(RulesAdmin):
    list_display = ("team", "hints_across_repositories", "rating_weight", "retire_below", "retire_after")
    ordering = ("team",)


view_only(MemoryEmbedding, "memory_id model corpus_id created_at", search="=memory__id", hidden="embedding")
view_only(
    StrategyUse,
    "id memory_id asked match_score similarity word_share same_pattern rating tokens_saved created_at",
    search="=memory__id =task__id",
)
view_only(TrustChange, "id memory_id trust rating weight reason changed_by changed_at", search="=memory__id")
view_only(
    Vote,
    "id rating rater assembly_id stage config_version reason created_at",
    filters="rating stage team",
    search="=rater =assembly__id",
    search_help="A rater, such as user:ann, or the number of an assembly.",
)
view_only(
    ExternalMessage,
    "external_id assembly_id team created_at",
    filters="team",
    search="=external_id =assembly__id",
)
view_only(
    ReviewItem,
    "id state origin verdicts assembly_id assigned_to created_at done_at",
    filters="state origin team",
    search="=assembly__id",
)
view_only(ReviewRules, "team takes_disliked sample_share verdicts_wanted", order="team")
view_only(
    QuestionSet,
    "name space min_recall changed_at created_by created_at",
    filters="space",
    search="name space__slug",
)
view_only(
    Evaluation,
    "id question_set config_version state questions recall precision tokens_mean empty created_at",
    filters="state question_set",
)
view_only(
    Backtest,
    "id space config last state created_by created_at finished_at",
    related="config__space",
    filters="state space",
)
