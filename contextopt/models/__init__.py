"""The tables, by concept."""

from contextopt.models.access import ApiKey, Membership, Role, Scope, StoredResponse, Team, User
from contextopt.models.assemblies import Assembly, AssemblyPayload, Kind
from contextopt.models.configs import ContextConfig
from contextopt.models.spaces import Record, RecordRevision, Space, SpaceCounts, SpaceHour

__all__ = [
    "ApiKey",
    "Assembly",
    "AssemblyPayload",
    "ContextConfig",
    "Kind",
    "Membership",
    "Record",
    "RecordRevision",
    "Role",
    "Scope",
    "Space",
    "SpaceCounts",
    "SpaceHour",
    "StoredResponse",
    "Team",
    "User",
]
