"""All models, gathered from their packages."""

from contextopt.agents.completions import Completion
from contextopt.agents.handoffs.models import BriefState, Decision, Finding, HandoffSettings, PhaseCompression
from contextopt.agents.models import (
    Action,
    Attempt,
    AttemptState,
    Blob,
    HandoffPhase,
    PhaseProfile,
    ReceiverFile,
    Task,
    TaskState,
)
from contextopt.agents.retrysettings import RetrySettings
from contextopt.agents.standingdocuments import StandingDocument
from contextopt.assemblies.corrections import Correction
from contextopt.assemblies.models import Assembly, AssemblyPayload, Kind
from contextopt.chat.models import Author, Conversation, Message, MessageState
from contextopt.gateway.models import GatewayGap, GatewayPolicy, GatewayRequest
from contextopt.people.models import (
    ApiKey,
    AuditEvent,
    Invitation,
    Membership,
    Role,
    Scope,
    StoredResponse,
    Team,
    Throttle,
    User,
)
from contextopt.repositories.models import CodeBlob, Repository, RepositoryFile, RepositoryHistory
from contextopt.search.models import (
    DocumentFrequency,
    Embedding,
    EmbeddingFill,
    EmbeddingModel,
    EmbeddingState,
    EmbeddingTodo,
    Language,
    SearchableText,
    SearchCorpus,
)
from contextopt.spaces.configs import ContextConfig
from contextopt.spaces.models import (
    Record,
    RecordEmbedding,
    RecordRevision,
    RecordView,
    Space,
    SpaceCounts,
    SpaceHour,
)

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
    "Correction",
    "Decision",
    "DocumentFrequency",
    "Embedding",
    "EmbeddingFill",
    "EmbeddingModel",
    "EmbeddingState",
    "EmbeddingTodo",
    "Finding",
    "GatewayGap",
    "GatewayPolicy",
    "GatewayRequest",
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
    "RetrySettings",
    "Role",
    "Scope",
    "SearchCorpus",
    "SearchableText",
    "Space",
    "SpaceCounts",
    "SpaceHour",
    "StandingDocument",
    "StoredResponse",
    "Task",
    "TaskState",
    "Team",
    "Throttle",
    "User",
]
