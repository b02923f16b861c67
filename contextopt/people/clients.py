"""The ways in which software calls: over plain HTTP, with a client, the gateway or MCP, or as a coding agent.

Except at the gateway, the user agent tells which. The page Connect shows it, and nothing depends on it.
"""

from enum import StrEnum


class Way(StrEnum):
    HTTP = "http"
    PYTHON = "python"
    GATEWAY = "gateway"
    MCP = "mcp"
    CLAUDE = "claude"
    CODEX = "codex"
    CURSOR = "cursor"


# The beginning of a user agent, in lower case. Hooks send the name of their tool.
_AGENTS = (
    ("contextopt-client", Way.PYTHON),
    ("contextopt-hook/claude", Way.CLAUDE),
    ("contextopt-hook/codex", Way.CODEX),
    ("contextopt-hook/cursor", Way.CURSOR),
    ("claude-code", Way.CLAUDE),
    ("codex", Way.CODEX),
    ("cursor", Way.CURSOR),
)


def way_of(user_agent: str, default: Way = Way.HTTP) -> Way:
    """Return the way of a request; `default` for a user agent that is not one of ours."""
    name = user_agent.lower()
    return next((way for start, way in _AGENTS if name.startswith(start)), default)
