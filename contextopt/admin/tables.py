"""The tables that the product itself maintains, each declared once. The admin only shows them."""

from django.contrib.admin import EmptyFieldListFilter

from contextopt.admin.base import display, view_only
from contextopt.agents.completions import Completion
from contextopt.agents.handoffs.models import Finding, PhaseCompression, Resolution
from contextopt.agents.models import Attempt, Blob
from contextopt.assemblies.tokenfactors import TokenFactor
from contextopt.chat.models import Conversation, Message
from contextopt.gateway.models import GatewayGap, GatewayPolicy, GatewayRequest
from contextopt.importruns.models import ImportPart, ImportRun
from contextopt.people.models import AuditEvent, ConnectCode, Invitation, StoredResponse, Throttle
from contextopt.repositories.models import CodeBlob, Repository, RepositoryFile, RepositoryHistory
from contextopt.search.models import (
    DocumentFrequency,
    EmbeddingFill,
    EmbeddingModel,
    EmbeddingTodo,
    SearchCorpus,
)
from contextopt.spaces.models import RecordEmbedding, RecordRevision, RecordView, SpaceCounts, SpaceHour

# People and keys.
view_only(AuditEvent, "at actor action subject team", filters="team action", search="=actor =action")
view_only(
    Invitation,
    "name team role created_by expires_at accepted_at revoked_at",
    filters="team role",
    search="name",
    shown="name team role created_by created_at expires_at accepted_at revoked_at",
)
view_only(
    ConnectCode,
    "user team space created_at expires_at redeemed_at machine",
    filters="team",
    shown="user team space space_ids created_at expires_at redeemed_at machine key",
)
view_only(
    StoredResponse,
    "idempotency_key api_key status created_at",
    search="=idempotency_key",
    shown="idempotency_key api_key status content_type request_hash created_at",
    hidden="body",
)
view_only(Throttle, "key free_at", search="=key", order="-free_at")

# Spaces.
view_only(
    RecordRevision,
    "record number change changed_by changed_at",
    filters="change",
    search="=record__id =changed_by",
    not_listed="notes metadata record__notes",
)
view_only(
    RecordView,
    "record viewer day",
    search="=record__id =viewer",
    hidden="record__notes record__metadata",
)
view_only(SpaceCounts, "space live pinned deleted", search="space__name space__slug", order="-space_id")
view_only(SpaceHour, "space hour live", filters="space")
view_only(
    ImportRun,
    "space name state created_by created_at finished_at",
    filters="state",
    search="name =created_by",
    shown="space name is_git newest state format error created_by created_at worked_at finished_at",
)
view_only(ImportPart, "run number", shown="run number", not_listed="content", hidden="content")

# Conversations and the gateway.
view_only(Conversation, "id title space team stage created_by active_at", filters="stage team")
view_only(
    Message,
    "id conversation_id author state tries next_try_at error model created_at",
    filters="state author",
    search="=id =conversation__id =idempotency_key",
    search_help="The number of a message or conversation, or an idempotency key.",
    not_listed="text",
)
view_only(
    GatewayPolicy,
    "space mode insert_percent placement keep history_tokens updated_at",
    filters="mode keep",
    order="-updated_at",
)
view_only(
    GatewayRequest,
    "id protocol model space_id mode is_inserted reason outcome status_code input_tokens cached_tokens"
    " added_ms created_at",
    filters="protocol mode outcome reason",
    search="=id =conversation",
    search_help="The number of a request, or a conversation's hash.",
    not_listed="question answer",
)
view_only(GatewayGap, "id team requests created_at")
view_only(
    TokenFactor,
    "team model kind prompts mean limit since updated_at",
    filters="kind team",
    search="model",
    shown="team model kind prompts counted_tokens reported_tokens mean limit mean_before since updated_at",
)


# Coding agents.
@display(description="Tokens saved")
def saved(row: Attempt | PhaseCompression) -> str:
    return "–" if row.saved_tokens is None else f"{row.saved_tokens:+,}"


view_only(
    Attempt,
    "task_id number receiver root_cause action state full_tokens delta_tokens saved created_at",
    links="task_id number",
    computed=(saved,),
    filters="action state",
    search="=task__id =root_cause",
    search_help="The number of a task, or a root cause.",
    not_listed="diagnosis plan error retry_context",
)
view_only(Blob, "sha256 team size used_at", filters="team", search="=sha256", hidden="content")
view_only(
    Finding,
    "task_id key phase category confidence decision tokens created_by created_at",
    links="task_id key",
    filters="phase decision",
    search="=task__id =category",
    search_help="The number of a task, or a category.",
    not_listed="content",
)
view_only(
    Resolution,
    "finding number answer created_by created_at",
    search="=finding__task__id =created_by",
    not_listed="finding__content",
)
view_only(
    PhaseCompression,
    "task_id phase version findings_count tokens_before extract_tokens critical_tokens saved brief_state"
    " is_forced created_at",
    links="task_id phase",
    computed=(saved,),
    related="assembly",
    filters="phase brief_state is_forced",
    search="=task__id",
    search_help="The number of a task.",
    not_listed="extract written discarded warnings settings",
)
# If a completion's lessons could not be stored yet, its error is shown here. It is tried again.
view_only(
    Completion,
    "id task_id team learned_at tries error created_by created_at",
    filters="team",
    search="=task__id",
    not_listed="report learned",
)

# Repositories.
view_only(
    Repository,
    "name team files symbols imports unresolved skipped seconds indexed_at",
    filters="team",
    search="name source",
)
view_only(
    RepositoryFile,
    "path repository size skipped",
    filters=("repository", ("skipped", EmptyFieldListFilter)),
    search="path",
)
view_only(
    CodeBlob,
    "team kind oid symbols parser",
    filters="kind team",
    search="=oid",
    hidden="content parsed definitions terms",
)
view_only(
    RepositoryHistory,
    "repository revision commits",
    search="repository__name =revision",
    order="-repository_id",
    hidden="changes",
)

# Search.
view_only(
    EmbeddingModel,
    "name dimensions state created_at activated_at retired_at",
    filters="state",
    search="name",
)
view_only(EmbeddingFill, "model searchable total walked is_filled is_indexed", filters="model")
view_only(EmbeddingTodo, "id searchable corpus_id row_id model")
view_only(RecordEmbedding, "record model corpus_id created_at", filters="model", hidden="embedding")
view_only(
    SearchCorpus,
    "searchable corpus_id documents mean_length counted_at",
    filters="searchable",
    search="corpus_id",
)
view_only(DocumentFrequency, "lexeme documents corpus", search="lexeme")
