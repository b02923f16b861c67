"""The tables, by concept."""

from contextopt.models.access import ApiKey, Membership, Role, Scope, StoredResponse, Team, User
from contextopt.models.assemblies import Assembly, AssemblyPayload, Kind
from contextopt.models.audit import AuditEvent
from contextopt.models.completions import Completion
from contextopt.models.configs import ContextConfig
from contextopt.models.conversations import Author, Conversation, Message, MessageState
from contextopt.models.embeddings import (
    Embedding,
    EmbeddingFill,
    EmbeddingModel,
    EmbeddingState,
    EmbeddingTodo,
    RecordEmbedding,
)
from contextopt.models.findings import BriefState, Decision, Finding, HandoffSettings, PhaseCompression
from contextopt.models.invitations import Invitation
from contextopt.models.phases import PhaseProfile
from contextopt.models.repositories import CodeBlob, Repository, RepositoryFile, RepositoryHistory
from contextopt.models.searching import DocumentFrequency, Language, SearchableText, SearchCorpus
from contextopt.models.spaces import Record, RecordRevision, RecordView, Space, SpaceCounts, SpaceHour
from contextopt.models.tasks import (
    Action,
    Attempt,
    AttemptState,
    Blob,
    HandoffPhase,
    ReceiverFile,
    Task,
    TaskState,
)
from contextopt.models.throttles import Throttle

__all__ = [
    "Action",
    "ApiKey",
    "Assembly",
    "AssemblyPayload",
    "Attempt",
    "AttemptState",
    "AuditEvent",
    "Author",
    "Blob",
    "BriefState",
    "CodeBlob",
    "Completion",
    "ContextConfig",
    "Conversation",
    "Decision",
    "DocumentFrequency",
    "Embedding",
    "EmbeddingFill",
    "EmbeddingModel",
    "EmbeddingState",
    "EmbeddingTodo",
    "Finding",
    "HandoffPhase",
    "HandoffSettings",
    "Invitation",
    "Kind",
    "Language",
    "Membership",
    "Message",
    "MessageState",
    "PhaseCompression",
    "PhaseProfile",
    "ReceiverFile",
    "Record",
    "RecordEmbedding",
    "RecordRevision",
    "RecordView",
    "Repository",
    "RepositoryFile",
    "RepositoryHistory",
    "Role",
    "Scope",
    "SearchCorpus",
    "SearchableText",
    "Space",
    "SpaceCounts",
    "SpaceHour",
    "StoredResponse",
    "Task",
    "TaskState",
    "Team",
    "Throttle",
    "User",
]
